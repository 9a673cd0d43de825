"""Makes what is made from the code: roles, their page, rules and dashboard; `--check` only says which are stale.

Roles come from the table of calls, the admission policies from the table of privileges (`admission.py`), the dashboard from
`dashboard.py`, and the rules for the Prometheus
operator from the plain rule file. Helm reads nothing outside of its chart, so the chart gets the roles, and copies of what
it shares with kustomize.
"""

import json
import sys
from pathlib import Path

import admission
import dashboard
import yaml

from daemon.cluster.client.calls import SHADOW_CALLS
from daemon.cluster.client.rbac import NAME, Rule, cluster_rules, namespace_rules, own_rules, table

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "monitoring/rules.yaml"
KUSTOMIZE = DEPLOY / "kustomize"
CHART = DEPLOY / "helm/muster/files"
COPIED = {
    "muster.yaml": KUSTOMIZE / "base/muster.yaml",
    "policy.yaml": KUSTOMIZE / "base/policy.yaml",
    "rules.yaml": RULES,
    "flow_schemas.yaml": KUSTOMIZE / "flow-control/flow_schemas.yaml",
    "queue_operators.yaml": KUSTOMIZE / "queue-operators/roles.yaml",
    "groupoverrides.yaml": KUSTOMIZE / "queue-operators/groupoverrides.yaml",
    "crds/hypernodes.yaml": KUSTOMIZE / "crds/hypernodes.yaml",
    "crds/podgroups.yaml": KUSTOMIZE / "crds/podgroups.yaml",
    "crds/queues.yaml": KUSTOMIZE / "crds/queues.yaml",
}
"""File of the chart to the one that it is a copy of."""
MADE = "Made by `make docs` from the code; do not edit."
NAMESPACE = "muster-system"
GROUP = "rbac.authorization.k8s.io"
TEXT = """\
What muster asks of the API server, whole: there is no other request in the code, no wildcard and no Secret.
The roles in `deploy/kustomize/base/rbac.yaml` and of the Helm chart are made from the same table. At the start the daemon asks the
server which of these it may do, and says what is missing; `/readyz` names it.

`cluster` is a ClusterRole. `own` is a Role in the namespace that muster is in; there, everything but `create`
is bound to the one Lease called `muster` (another `lease_name` in the settings needs another Role). `/version`, `/api` and `/apis`, which are read at the start, are open to
every authenticated account. The name of another namespace is that of a device stack: a Role there, which
`deploy/kustomize/ascend` holds. Where it is missing, the devices that the stack reports are not known, and the daemon is
ready all the same.

A [shadow](shadow.md) lists and watches, and does nothing else: of the table it has the verbs `list` and `watch`, no Role in its
own namespace and no Lease. `deploy/kustomize/overlays/shadow` and the Helm chart with `settings.shadow_of` make that role.

What a cluster does not serve (the groups of Volcano, say) may stand in a role all the same and does no harm."""


def main() -> str | None:
    """Writes every file, or checks them all and returns what to say of those that are stale."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    made = {
        DEPLOY / "kustomize/base/rbac.yaml": documents(*roles()),
        DEPLOY / "kustomize/ascend/rbac.yaml": documents(*roles_elsewhere()),
        DEPLOY / "kustomize/overlays/shadow/cluster_role.yaml": documents(
            role("ClusterRole", cluster_rules(SHADOW_CALLS))
        ),
        KUSTOMIZE / "components/admission/policies.yaml": admission.text_of(
            admission.policies(), MADE
        ),
        KUSTOMIZE / "components/admission/roles.yaml": admission.text_of(admission.roles(), MADE),
        CHART / "admission.yaml": admission.text_of(
            [*admission.policies(), *admission.roles()], MADE
        ),
        DEPLOY / "kustomize/components/monitoring/rule.yaml": documents(operator_rule(rules)),
        DEPLOY / "kustomize/components/monitoring/dashboard.json": as_json(dashboard.document()),
        CHART / "roles.yaml": documents(roles_of_the_chart()),
        CHART / "dashboard.json": as_json(dashboard.document()),
        **{CHART / name: read(source) for name, source in COPIED.items()},
        ROOT / "docs/rbac.md": page(),
        ROOT / "docs/privileges.md": admission.page(MADE),
    }
    if "--check" in sys.argv[1:]:
        stale = [path.relative_to(ROOT) for path, text in made.items() if read(path) != text]
        return f"stale, run `make docs`: {', '.join(map(str, stale))}" if stale else None
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return None


def roles() -> list[dict[str, object]]:
    """The roles and their bindings."""
    return [
        role("ClusterRole", cluster_rules()),
        binding("ClusterRole"),
        role("Role", own_rules()),
        binding("Role"),
    ]


def roles_elsewhere() -> list[dict[str, object]]:
    """The roles in the namespaces of device stacks, and their bindings."""
    return [
        made
        for namespace, rules in namespace_rules().items()
        for made in (role("Role", rules, namespace), binding("Role", namespace))
    ]


def roles_of_the_chart() -> dict[str, object]:
    """The rules by scope; the chart has templates for the roles around them."""
    return {
        "cluster": [rule.document() for rule in cluster_rules()],
        "own": [rule.document() for rule in own_rules()],
        "namespaces": {
            namespace: [rule.document() for rule in rules]
            for namespace, rules in namespace_rules().items()
        },
        "shadow": {
            "cluster": [rule.document() for rule in cluster_rules(SHADOW_CALLS)],
            "namespaces": {
                namespace: [rule.document() for rule in rules]
                for namespace, rules in namespace_rules(SHADOW_CALLS).items()
            },
        },
    }


def metadata(namespace: str) -> dict[str, str]:
    return {"name": NAME, "namespace": namespace} if namespace else {"name": NAME}


def role(kind: str, rules: list[Rule], namespace: str = "") -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": metadata(namespace),
        "rules": [rule.document() for rule in rules],
    }


def binding(kind: str, namespace: str = "") -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata(namespace),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }


def operator_rule(rules: dict[str, object]) -> dict[str, object]:
    """The rule file as an object of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME},
        "spec": rules,
    }


def page() -> str:
    """The table of calls, for people."""
    lines = ["# RBAC", "", f"<!-- {MADE} -->", "", TEXT, ""]
    lines += ["| verbs | resource | API group | scope | why |", "| --- | --- | --- | --- | --- |"]
    for verbs, resource, group, scope, why in table():
        named = f"`{group}`" if group else "core"
        lines += [f"| {verbs} | `{resource}` | {named} | {scope} | {why} |"]
    return "\n".join(lines) + "\n"


def documents(*objects: dict[str, object]) -> str:
    return f"# {MADE}\n" + yaml.safe_dump_all(objects, sort_keys=False, width=100)


def as_json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=1) + "\n"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
