//go:build tools

// Package tools pins the programs of the local cluster in one module: what they share is downloaded and compiled once.
// Kubernetes decides the versions of k8s.io: kwok, mpi-operator, helm and CoreDNS are built with its 0.34.4.
package tools

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "go.etcd.io/etcd/server/v3"
	_ "helm.sh/helm/v3/cmd/helm"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
