"""The demo's one job: its object, its pods and its launcher."""

from __future__ import annotations

from typing import Final

from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import wait_until

JOBS: Final = "/apis/hyperscale.dev/v1alpha1"
RUNNING_SECONDS: Final = 20.0
_BOUND_SECONDS: Final = 180.0
_GONE_SECONDS: Final = 60.0
"""The garbage collector learns of new CRDs only every 30 s."""
_MANAGER: Final = "kubectl"


class Demo:
    """One job on one cluster."""

    def __init__(self, api: Api, job: Object) -> None:
        self._api = api
        self._job = job
        self.name = job["metadata"]["name"]
        self.namespace = job["metadata"].get("namespace", "default")
        self._path = f"{JOBS}/namespaces/{self.namespace}/gnntrainingjobs/{self.name}"

    @property
    def claim(self) -> str:
        """Name of the volume claim for its checkpoints."""
        name: str = self._job["spec"]["checkpoint"]["claimName"]
        return name

    def remove_old(self) -> None:
        """Take away what an earlier demo left, and wait until it is gone."""
        if self._api.find(self._path) is None:
            return
        self._api.delete(self._path, propagationPolicy="Foreground")
        wait_until(lambda: self._api.find(self._path) is None and not self.pods(), _GONE_SECONDS, "the job of an earlier demo does not go")

    def apply(self) -> None:
        """Like `kubectl apply --server-side`."""
        if self.namespace != "default":
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            self._api.apply(f"/api/v1/namespaces/{self.namespace}", namespace)
        self._api.apply(self._path, self._job, _MANAGER)

    def status(self) -> Object:
        """The job's status; empty before the operator wrote one."""
        found: Object = self._api.get(self._path).get("status") or {}
        return found

    def pods(self) -> dict[int, Object]:
        """Worker pods by index."""
        selector = f"training.kubeflow.org/job-name={self.name},training.kubeflow.org/job-role=worker"
        pods = self._api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        return {int(pod["metadata"]["labels"]["training.kubeflow.org/replica-index"]): pod for pod in pods}

    def wait_bound(self) -> None:
        """Until every planned worker has a pod on a node; raises NotReadyError with the conditions seen."""

        def bound() -> bool:
            planned = len((self.status().get("plan") or {}).get("workers", ()))
            pods = self.pods()
            return planned > 0 and len(pods) == planned and all(pod["spec"].get("nodeName") for pod in pods.values())

        wait_until(bound, _BOUND_SECONDS, f"not every worker of {self.namespace}/{self.name} is bound")

    def all_running(self) -> bool:
        """Whether every worker pod runs."""
        return all(pod["status"].get("phase") == "Running" for pod in self.pods().values())

    def wait_launcher(self) -> Object:
        """The launcher's pod, once its gate is open and it runs; raises NotReadyError."""
        selector = f"training.kubeflow.org/job-name={self.name},training.kubeflow.org/job-role=launcher"

        def running() -> list[Object]:
            pods = self._api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
            return [pod for pod in pods if pod["status"].get("phase") == "Running"]

        wait_until(lambda: bool(running()), RUNNING_SECONDS, "the launcher does not start")
        return running()[0]

    def plan_file(self) -> str:
        """What workers read of the plan."""
        text: str = self._api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}-plan")["data"]["plan.json"]
        return text

    def end_launcher(self, launcher: Object, status: Object) -> None:
        """Report its end, as the kubelet of its node would."""
        self._api.patch(f"/api/v1/namespaces/{self.namespace}/pods/{launcher['metadata']['name']}/status", status)

    def misplaced(self) -> list[str]:
        """One line for each worker that is not on its planned node."""
        pods = self.pods()
        return [
            f"worker {worker['index']}: planned {worker['node']}, pod on {pods[worker['index']]['spec'].get('nodeName')}"
            for worker in self.status()["plan"]["workers"]
            if worker["index"] not in pods or pods[worker["index"]]["spec"].get("nodeName") != worker["node"]
        ]
