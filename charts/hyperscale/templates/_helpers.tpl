{{/* Names, labels and images. Rendering is deterministic: no clock, no hook; lookup and a random value only in agent-token.yaml, where a cluster is. */}}

{{- define "hyperscale.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of every object's name; 52 characters leave room for the longest suffix. */}}
{{- define "hyperscale.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "hyperscale.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects: two releases in different namespaces must not share a ClusterRole. */}}
{{- define "hyperscale.clusterName" -}}
{{- $name := include "hyperscale.fullname" . -}}
{{- if eq .Release.Namespace (printf "%s-system" $name) -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace $name -}}
{{- end -}}
{{- end -}}

{{- define "hyperscale.serviceAccountName" -}}
{{- $name := .Values.serviceAccount.name | default (ternary (include "hyperscale.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- if eq $name "default" -}}
{{- fail "serviceAccount.name: the account `default` is that of every pod of the namespace, which would all get the operator's rights; write the name of an account of its own, or set serviceAccount.create: true" -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "hyperscale.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hyperscale.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* The agents' own name, labels and secret. */}}
{{- define "hyperscale.agentName" -}}
{{- printf "%s-agent" (include "hyperscale.fullname" .) -}}
{{- end -}}

{{- define "hyperscale.agentTokenName" -}}
{{- .Values.agent.token.existingSecret | default (printf "%s-token" (include "hyperscale.agentName" .)) -}}
{{- end -}}

{{/* The Service and the Secret of previews. */}}
{{- define "hyperscale.previewName" -}}
{{- printf "%s-preview" (include "hyperscale.fullname" .) -}}
{{- end -}}

{{- define "hyperscale.previewSecretName" -}}
{{- .Values.preview.existingSecret | default (include "hyperscale.previewName" .) -}}
{{- end -}}

{{- define "hyperscale.agentSelectorLabels" -}}
{{- toYaml (merge (dict "app.kubernetes.io/component" "agent") (include "hyperscale.selectorLabels" . | fromYaml)) -}}
{{- end -}}

{{- define "hyperscale.agentLabels" -}}
{{- toYaml (merge (include "hyperscale.agentSelectorLabels" . | fromYaml) (include "hyperscale.labels" . | fromYaml)) -}}
{{- end -}}

{{- define "hyperscale.agentLinkPorts" -}}
- {port: 9466, protocol: TCP}
- {port: 9466, protocol: UDP}
{{- end -}}

{{/* The user's labels come first and ours win, so that a selector can never be broken by a label. */}}
{{- define "hyperscale.labels" -}}
{{- $own := dict
  "app.kubernetes.io/part-of" "hyperscale"
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- toYaml (merge (include "hyperscale.selectorLabels" . | fromYaml) $own (.Values.commonLabels | default dict)) -}}
{{- end -}}

{{/* (dict "image" one of the image values "root" $) -> reference. A global registry is a mirror of everything: it wins. */}}
{{- define "hyperscale.image" -}}
{{- $registry := dig "imageRegistry" "" (.root.Values.global | default dict) | default .image.registry -}}
{{- $path := .image.repository -}}
{{- if $registry -}}
{{- $path = printf "%s/%s" $registry .image.repository -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $path .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Pull Secrets as a list of objects, each once; empty where there are none. Both forms are in use: names, and objects with a name. */}}
{{- define "hyperscale.pullSecrets" -}}
{{- $found := list -}}
{{- range concat (.Values.image.pullSecrets | default list) (dig "imagePullSecrets" list (.Values.global | default dict) | default list) -}}
{{- $found = append $found (dict "name" (ternary . (dig "name" "" (ternary dict . (kindIs "string" .))) (kindIs "string" .))) -}}
{{- end -}}
{{- with $found | uniq }}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{/* More environment, with numbers and truths as text: the API server takes nothing else. */}}
{{- define "hyperscale.extraEnv" -}}
{{- range . }}
{{- $entry := . }}
{{- if and (hasKey . "value") (not (kindIs "string" .value)) }}
{{- $text := .value | toString }}
{{- if and (kindIs "float64" .value) (eq .value (floor .value)) }}
{{- $text = printf "%.0f" .value }}
{{- end }}
{{- $entry = merge (dict "value" $text) (omit . "value") }}
{{- end }}
{{ toYaml (list $entry) }}
{{- end }}
{{- end -}}

{{/* Ports of Prometheus as a JSON list: given, or the port of its URL. */}}
{{- define "hyperscale.prometheusPorts" -}}
{{- if .Values.networkPolicy.prometheus.ports -}}
{{- .Values.networkPolicy.prometheus.ports | toJson -}}
{{- else -}}
{{- list (include "hyperscale.urlPort" .Values.prometheus.url | int) | toJson -}}
{{- end -}}
{{- end -}}

{{/* Sources of the projected volume with authority and credentials of Prometheus; empty where there are none. */}}
{{- define "hyperscale.prometheusFiles" -}}
{{- $tls := .Values.prometheus.tls -}}
{{- $auth := .Values.prometheus.auth -}}
{{- with $tls.caSecret }}
- secret: {name: {{ . | quote }}, items: [{key: {{ $tls.caKey | quote }}, path: ca.crt}]}
{{- end }}
{{- with $tls.caConfigMap }}
- configMap: {name: {{ . | quote }}, items: [{key: {{ $tls.caKey | quote }}, path: ca.crt}]}
{{- end }}
{{- with $auth.bearerSecret }}
- secret: {name: {{ . | quote }}, items: [{key: {{ $auth.bearerKey | quote }}, path: token}]}
{{- end }}
{{- with $auth.basicSecret }}
- secret:
    name: {{ . | quote }}
    items: [{key: {{ $auth.usernameKey | quote }}, path: username}, {key: {{ $auth.passwordKey | quote }}, path: password}]
{{- end }}
{{- end -}}

{{/* Values about Prometheus that contradict each other. */}}
{{- define "hyperscale.checkPrometheus" -}}
{{- $tls := .Values.prometheus.tls -}}
{{- $auth := .Values.prometheus.auth -}}
{{- if and $tls.caSecret $tls.caConfigMap -}}
{{- fail "prometheus.tls: caSecret and caConfigMap are two sources of one file; leave one empty" -}}
{{- end -}}
{{- if and $auth.bearerSecret $auth.basicSecret -}}
{{- fail "prometheus.auth: a request carries a bearer token or a name with a password; leave bearerSecret or basicSecret empty" -}}
{{- end -}}
{{- if and (or $tls.caSecret $tls.caConfigMap) (not (hasPrefix "https://" (.Values.prometheus.url | default ""))) -}}
{{- fail (printf "prometheus.tls: an authority is of use with an https URL only, and prometheus.url is %q; write https:// or leave prometheus.tls empty" .Values.prometheus.url) -}}
{{- end -}}
{{- if and (or $auth.bearerSecret $auth.basicSecret .Values.prometheus.tenant) (not .Values.prometheus.url) -}}
{{- fail "prometheus.url: is empty, but prometheus.auth or prometheus.tenant is set; write the URL of Prometheus" -}}
{{- end -}}
{{- end -}}

{{/* The port of a URL, given or its scheme's. */}}
{{- define "hyperscale.urlPort" -}}
{{- $url := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}

{{/* Ports that do not exist or that two would listen on. */}}
{{- define "hyperscale.checkPorts" -}}
{{- range $name, $url := dict "prometheus.url" .Values.prometheus.url "agent.gpu.dcgmUrl" .Values.agent.gpu.dcgmUrl -}}
{{- if $url -}}
{{- $port := include "hyperscale.urlPort" $url | int -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "%s: %d is no port; write one from 1 to 65535" $name $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $preview := ternary .Values.preview.port 0 .Values.preview.enabled | int -}}
{{- if and $preview (has $preview (list (int .Values.metrics.port) (int .Values.settings.topologyPort))) -}}
{{- fail (printf "preview.port: %d is metrics.port or settings.topologyPort; write another, such as 8082" $preview) -}}
{{- end -}}
{{- $map := .Values.settings.topologyPort | int -}}
{{- if eq $map 8080 -}}
{{- fail "settings.topologyPort: 8080 is the port of the probes; write another, such as 8081" -}}
{{- else if and $map (eq $map (.Values.metrics.port | int)) -}}
{{- fail (printf "settings.topologyPort: %d is metrics.port; write another, such as 8081" $map) -}}
{{- end -}}
{{- end -}}

{{/* Names that stand in a list twice: (dict "of" the value's path "names" a list). */}}
{{- define "hyperscale.checkTwice" -}}
{{- range $at, $name := .names -}}
{{- if has $name (slice $.names 0 $at) -}}
{{- fail (printf "%s: %s stands there twice; leave one out" $.of $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Volumes, mounts and variables that clash with each other or with the chart's. */}}
{{- define "hyperscale.checkPod" -}}
{{- $own := list "tmp" "weights" "prometheus" "preview" -}}
{{- $names := list -}}
{{- range .Values.extraVolumes -}}
{{- if has .name $own -}}
{{- fail (printf "extraVolumes: %s is a volume of the chart; give yours another name" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- include "hyperscale.checkTwice" (dict "of" "extraVolumes" "names" $names) -}}
{{- $paths := list -}}
{{- range .Values.extraVolumeMounts -}}
{{- $path := clean .mountPath -}}
{{- if has (trimPrefix "/" $path) $own -}}
{{- fail (printf "extraVolumeMounts: %s is a mount path of the chart; write another" $path) -}}
{{- end -}}
{{- if not (has .name (append $names "tmp")) -}}
{{- fail (printf "extraVolumeMounts: no volume is called %s; add it to extraVolumes" .name) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- end -}}
{{- include "hyperscale.checkTwice" (dict "of" "extraVolumeMounts" "names" $paths) -}}
{{- range $of, $variables := dict "extraEnv" .Values.extraEnv "agent.extraEnv" .Values.agent.extraEnv -}}
{{- $given := list -}}
{{- range $variables -}}
{{- $given = append $given .name -}}
{{- end -}}
{{- include "hyperscale.checkTwice" (dict "of" $of "names" $given) -}}
{{- end -}}
{{- end -}}

{{/* Whole bytes of a quantity, as text. */}}
{{- define "hyperscale.bytes" -}}
{{- $text := ternary . (printf "%.0f" (float64 .)) (kindIs "string" .) -}}
{{- $factors := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- printf "%.0f" (mulf (regexFind "^[0-9.]+" $text | float64) (get $factors (regexFind "[A-Za-z]*$" $text))) -}}
{{- end -}}

{{/* Operator and planner share the container's memory; the figures are those of hyperscale/settings.py. */}}
{{- define "hyperscale.checkMemory" -}}
{{- $limit := dig "memory" "" (dig "limits" dict (.Values.resources | default dict) | default dict) -}}
{{- if $limit -}}
{{- $bytes := include "hyperscale.bytes" $limit | int64 -}}
{{- $planner := .Values.settings.plannerMemoryBytes | int64 -}}
{{- $most := sub $bytes 209715200 -}}
{{- if lt $bytes 536870912 -}}
{{- fail (printf "resources.limits.memory: %v is too small for operator and planner; write at least 512Mi" $limit) -}}
{{- else if gt $planner $most -}}
{{- fail (printf "settings.plannerMemoryBytes: %d does not fit beside the operator into resources.limits.memory: %v; write at most %d, or raise that limit" $planner $limit $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a JSON schema cannot say. */}}
{{- define "hyperscale.check" -}}
{{- include "hyperscale.checkMemory" . -}}
{{- include "hyperscale.checkPrometheus" . -}}
{{- include "hyperscale.checkPorts" . -}}
{{- include "hyperscale.checkPod" . -}}
{{- if ge (mulf 3 (float64 .Values.settings.leaseRenewSeconds)) (mulf 2 (float64 .Values.settings.leaseDurationSeconds)) -}}
{{- fail (printf "settings.leaseRenewSeconds: %v is not below two thirds of settings.leaseDurationSeconds: %v; write at most a third of it" .Values.settings.leaseRenewSeconds .Values.settings.leaseDurationSeconds) -}}
{{- end -}}
{{- end -}}

{{/* Rules of the namespaces whose jobs are served; docs/rbac.md gives the reason for each. */}}
{{- define "hyperscale.jobRules" -}}
- apiGroups: [hyperscale.dev]
  resources: [gnntrainingjobs]
  verbs: [get, list, watch]
- apiGroups: [hyperscale.dev]
  resources: [gnntrainingjobs/status]
  verbs: [patch]
- apiGroups: [hyperscale.dev]
  resources: [gnntrainingjobs/finalizers] # lets owner references block deletion where OwnerReferencesPermissionEnforcement is on
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch, create, patch] # no delete: owner references take them along
- apiGroups: [""]
  resources: [pods] # create: dry run of the rendered pod; patch: opening the gates
  verbs: [get, list, watch, create, patch{{ if .Values.recovery.deletePods }}, delete{{ end }}]
- apiGroups: [""]
  resources: [configmaps] # the plan file of each job, by name; never listed; delete: one that an earlier job of the name left
  verbs: [get, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs] # that read a job's graph, write its partitions and try its code; delete: one for another spec makes way
  verbs: [get, create, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies] # around the pod that tries a job's code, by name; never listed; delete: one for other data makes way
  verbs: [get, create, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # those that a job's pods mount, by name: whether they exist, and which volume they are bound to
  verbs: [get]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads] # by label: the one of an MPIJob that another has suspended, to name it in the job's condition
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/*
Whether a value has a former field: a text that is not empty. Takes value, path (steps; [] is every entry of a list) and field (words, type).
*/}}
{{- define "hyperscale.holds" -}}
{{- if not .path }}
{{- if .field.words }}{{ if has .value .field.words }}yes{{ end }}
{{- else if eq (.field.type | default "") "Number" }}{{ if or (kindIs "float64" .value) (kindIs "int64" .value) (kindIs "int" .value) }}yes{{ end }}
{{- else if eq (.field.type | default "") "Fraction" }}{{ if kindIs "float64" .value }}{{ if ne (floor .value) .value }}yes{{ end }}{{ end }}
{{- else if not (kindIs "invalid" .value) }}yes{{ end }}
{{- else if eq (first .path) "[]" }}
{{- if kindIs "slice" .value }}{{ range $entry := .value }}{{ include "hyperscale.holds" (dict "value" $entry "path" (rest $.path) "field" $.field) }}{{ end }}{{ end }}
{{- else if kindIs "map" .value }}
{{- if hasKey .value (first .path) }}{{ include "hyperscale.holds" (dict "value" (get .value (first .path)) "path" (rest .path) "field" .field) }}{{ end }}
{{- end }}
{{- end }}
