"""What the demo prints of a plan and of its pods."""

from __future__ import annotations

from e2e.cluster.api import Object
from hyperscale.cli.text_tables import predicted_text


def print_plan(status: Object) -> None:
    """The plan and its reasons."""
    plan = status["plan"]
    predicted = plan["predicted"]
    print(f"\nPlan {plan['id']} by the {plan['planner']} planner: {len(plan['workers'])} workers, {plan['partitions']} partitions")
    epoch, communication = (predicted_text(predicted[key]) for key in ("epochSeconds", "communicationSeconds"))
    print(f"predicted epoch {epoch} (communication {communication})\n")
    print(f"{'WORKER':<8}{'NODE':<16}{'GPUS':<6}{'SHARE':<9}PRODUCT")
    for worker in plan["workers"]:
        print(f"{worker['index']:<8}{worker['node']:<16}{worker['gpus']:<6}{worker['share']:<9.4f}{worker.get('product', '')}")
    for title, lines in (("Why", plan.get("reasons", ())), ("Fallbacks", plan.get("fallbacks", ()))):
        if lines:
            print(f"\n{title}")
            print("\n".join(f"  - {line}" for line in lines))
    if plan.get("rejected"):
        print("\nNot used")
        print("\n".join(f"  - {one['node']}: {one['reason']}. {one.get('message', '')}".rstrip() for one in plan["rejected"]))


def print_pods(pods: dict[int, Object]) -> None:
    """Rank, pod, node and phase."""
    print(f"\n{'WORKER':<8}{'POD':<28}{'NODE':<16}PHASE")
    for index, pod in sorted(pods.items()):
        print(f"{index:<8}{pod['metadata']['name']:<28}{pod['spec'].get('nodeName', '-'):<16}{pod['status'].get('phase', '')}")


def conditions(status: Object) -> list[str]:
    """A line for each condition of the job."""
    return [f"{one['type']}={one['status']} {one['reason']}: {one.get('message', '')}" for one in status.get("conditions", ())]
