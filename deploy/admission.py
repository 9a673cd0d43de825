"""The admission policies and their roles, and the page of privileges: made from the table in `events/privileges.py`.

A policy is made for each shape of objects: pods, PodGroups, workloads with one pod template, Volcano Jobs and so on. All have the
same variables and the same checks; only where names and pod templates stand differs. Each check finds the keys and names that the
request changes, and asks the authorizer about each: RBAC on resources of `muster.sh` of which no object exists.

The cost of an expression is bounded by the API server (10,000,000 for a policy); one question to the authorizer costs 350,000. So
names that are equal are asked about once, and objects that state nothing of the table do not get beyond the match conditions.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import yaml
from msgspec import Struct

from events.privileges import (
    ANNOTATION,
    BUDGET,
    CLASSES,
    CONTROLLER,
    DELEGATE,
    DEVICE_PLUGIN,
    FIELD,
    KEYS,
    LABEL,
    MUSTER,
    NAMESPACE,
    OBJECT,
    POD,
    POD_GROUP,
    PODS,
    POOLS,
    QUEUE,
    QUEUES,
    RIGHTS_GROUP,
    ROWS,
    SECTIONS,
    SET,
    USE,
    WORKLOAD,
    Privilege,
    fixed_keys,
    naming_keys,
    privileged_keys,
    set_by,
)

API: Final = "admissionregistration.k8s.io/v1"
RBAC: Final = "rbac.authorization.k8s.io"
NAMESPACE_OF_MUSTER: Final = "muster-system"
EXCLUDED: Final = ("kube-system",)
"""Namespaces in which nothing is checked: tenants have no rights there."""
TO_OPERATOR: Final = {"muster.sh/aggregate-to-admission-operator": "true"}
TO_QUEUE_USER: Final = {"muster.sh/aggregate-to-queue-user": "true"}
"""Labels of ClusterRoles whose rules `muster-admission-operator` and `muster-queue-user` have, too."""
UNCHECKED_SCHEDULER: Final = "default-scheduler"
LOOP_MAX: Final = 64
"""Entries of an object that are looped over; an object of the table has fewer."""
TEMPLATES_MAX: Final = 256
"""Pod templates of one object that are looked at; one with more is refused."""
PHASE: Final = "status.phase"
OWNERS: Final = "metadata.ownerReferences"

Manifest: TypeAlias = dict[str, object]


class Shape(Struct, frozen=True):
    """Where objects of some resources have their pod templates, queues and priority classes."""

    name: str
    kind: str
    """Kind in the table of privileges."""
    resources: tuple[tuple[str, tuple[str, ...]], ...]
    """API group and resources."""
    template: str = ""
    """CEL: the pod template of `{o}`, or that of the entry `t` of `{e}`."""
    entries: str = ""
    """CEL: a list or map of `{o}` whose entries have a pod template each; empty if the object has one."""
    queues: tuple[str, ...] = ()
    """CEL: optional texts of `{o}` that name queues."""
    classes: tuple[str, ...] = ()
    """CEL: optional texts of `{o}` that name priority classes."""
    scheduler: str = "default-scheduler"
    """Name of the scheduler of a pod template that names none."""
    namespace: str = "request.namespace"

    def entries_of(self, o: str) -> str:
        """Return the CEL of the list or map of `o` that has the pod templates."""
        return self.entries.format(o=o)

    def templates(self, o: str) -> str:
        """Return the CEL of the list of pod templates of `o`; it is empty if there are too many to look at."""
        if not self.entries:
            return f"[{self.template.format(o=o)}]"
        entries = self.entries_of(o)
        template = self.template.format(e=entries)
        return f"{entries}.size() > {TEMPLATES_MAX} ? [] :\n{entries}.map(t, {template})"


def _with_status(*resources: str) -> tuple[str, ...]:
    """Return resources with their status: through it the API server lets annotations be changed, too."""
    return tuple([name for one in resources for name in (one, f"{one}/status")])


_REPLICA_SPECS: Final = (
    *("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs"),
    *("paddleReplicaSpecs", "jaxReplicaSpecs", "mxReplicaSpecs", "replicaSpecs"),
)
_ROLES: Final = (
    f"([{', '.join(map(repr, _REPLICA_SPECS))}].filter(f, f in {{o}}.?spec.orValue({{{{}}}}))"
    ".map(f, {o}.spec[f]) + [{{}}])[0]"
)
"""CEL: the map from roles to what has their pod templates; a kind of training job has one such field."""

SHAPES: Final = (
    Shape("muster-pods", POD, (("", ("pods", "pods/status")),)),
    Shape(
        "muster-pod-groups",
        POD_GROUP,
        (("scheduling.volcano.sh", ("podgroups", "podgroups/status")),),
        queues=("{o}.?spec.?queue",),
        classes=("{o}.?spec.?priorityClassName",),
    ),
    Shape(
        "muster-workloads",
        WORKLOAD,
        (
            ("", _with_status("replicationcontrollers")),
            ("apps", _with_status("daemonsets", "deployments", "replicasets", "statefulsets")),
            ("batch", _with_status("jobs")),
        ),
        template="{o}.spec.?template.orValue({{}})",
    ),
    Shape(
        "muster-cron-jobs",
        WORKLOAD,
        (("batch", _with_status("cronjobs")),),
        template="{o}.spec.jobTemplate.?spec.?template.orValue({{}})",
    ),
    Shape(
        "muster-volcano-jobs",
        WORKLOAD,
        (("batch.volcano.sh", ("jobs",)), ("flow.volcano.sh", ("jobtemplates",))),
        scheduler="volcano",
        entries="{o}.?spec.?tasks.orValue([])",
        template="t.?template.orValue({{}})",
        queues=("{o}.?spec.?queue",),
        classes=("{o}.?spec.?priorityClassName",),
    ),
    Shape(
        "muster-volcano-cron-jobs",
        WORKLOAD,
        (("batch.volcano.sh", ("cronjobs",)),),
        scheduler="volcano",
        entries="{o}.?spec.?jobTemplate.?spec.?tasks.orValue([])",
        template="t.?template.orValue({{}})",
        queues=("{o}.?spec.?jobTemplate.?spec.?queue",),
        classes=("{o}.?spec.?jobTemplate.?spec.?priorityClassName",),
    ),
    Shape(
        "muster-training-jobs",
        WORKLOAD,
        (
            (
                "kubeflow.org",
                (
                    *("jaxjobs", "mpijobs", "mxjobs", "paddlejobs"),
                    *("pytorchjobs", "tfjobs", "xgboostjobs"),
                ),
            ),
            ("mindxdl.gitee.com", ("ascendjobs",)),
        ),
        scheduler="volcano",
        entries=_ROLES,
        template="{e}[t].?template.orValue({{}})",
        queues=("{o}.?spec.?runPolicy.?schedulingPolicy.?queue",),
        classes=("{o}.?spec.?runPolicy.?schedulingPolicy.?priorityClass",),
    ),
    Shape(
        "muster-job-sets",
        WORKLOAD,
        (("jobset.x-k8s.io", ("jobsets",)),),
        entries="{o}.?spec.?replicatedJobs.orValue([])",
        template="t.?template.?spec.?template.orValue({{}})",
    ),
    Shape(
        "muster-leader-worker-sets",
        WORKLOAD,
        (("leaderworkerset.x-k8s.io", ("leaderworkersets",)),),
        entries="{o}.?spec.?leaderWorkerTemplate.orValue({{}})",
        template="t in ['leaderTemplate', 'workerTemplate'] ? {e}[t] : {{}}",
    ),
    Shape(
        "muster-namespaces",
        NAMESPACE,
        (("", ("namespaces", "namespaces/finalize", "namespaces/status")),),
        namespace="object.metadata.name",
    ),
    Shape(
        "muster-queues",
        QUEUE,
        (("scheduling.volcano.sh", ("queues",)),),
        namespace="''",
    ),
)


def policies() -> list[Manifest]:
    """Return the policies, each with its binding."""
    made = [_policy(shape) for shape in SHAPES]
    made.append(_budget_policy())
    return [one for policy in made for one in (policy, _binding(policy))]


def roles() -> list[Manifest]:
    """Return the roles that the policies ask for, and the bindings of those that the cluster itself needs."""
    everyone = [_group("system:authenticated"), _group("system:serviceaccounts")]
    nodes = [_group("system:nodes"), _group("system:serviceaccounts:kube-system")]
    controllers: list[Manifest] = [
        {"apiGroup": RBAC, "kind": "User", "name": "system:kube-controller-manager"},
        _group("system:serviceaccounts:kube-system"),
        _group("system:serviceaccounts:volcano-system"),
    ]
    own: Manifest = {"kind": "ServiceAccount", "name": "muster", "namespace": NAMESPACE_OF_MUSTER}
    delegate = _rule([PODS], [DELEGATE])
    names = [QUEUES, POOLS, CLASSES]
    return [
        _role("muster-admission-scheduler", [_rule([KEYS], [SET], set_by(MUSTER))]),
        _bound("muster-admission-scheduler", [own]),
        _role("muster-admission-devices", [_rule([KEYS], [SET], set_by(DEVICE_PLUGIN))]),
        _bound("muster-admission-devices", nodes),
        _role("muster-admission-controllers", [delegate, _rule([KEYS], [SET], set_by(CONTROLLER))]),
        _bound("muster-admission-controllers", controllers),
        _role("muster-admission-default-queue", [_rule([QUEUES], [USE], ["default"])]),
        _bound("muster-admission-default-queue", everyone),
        _role("muster-queue-names", [_rule(names, [USE])], TO_QUEUE_USER),
        _aggregated("muster-queue-user", TO_QUEUE_USER),
        _role("muster-keys", [_rule([KEYS], [SET]), _rule(names, [USE])], TO_OPERATOR),
        _aggregated("muster-admission-operator", TO_OPERATOR),
    ]


def text_of(objects: Iterable[Manifest], made: str) -> str:
    """Return objects as YAML, with texts of several lines as they read."""
    return f"# {made}\n" + yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=200)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and each object whole where it is used twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _policy(shape: Shape) -> Manifest:
    variables = [*_metadata(shape), *_writer(shape)]
    validations = []
    if shape.entries:
        validations.append(_size_validation(shape))
    keys = privileged_keys(shape.kind)
    if keys:
        variables += _changed_keys(shape, keys)
        validations.append(_validation("changedKeys", SET, KEYS, shape))
    if shape.kind == POD:
        variables.append(_variable("isKept", _IS_KEPT))
        validations.append(_owner_validation(shape))
    for resource, names in ((QUEUES, "Queues"), (POOLS, "Pools"), (CLASSES, "Classes")):
        new, old = (_names(shape, resource, o) for o in ("object", "oldObject"))
        if new:
            stated = f"({new}).filter(n, n != '' && !(n in variables.old{names}))"
            variables += [
                _variable(f"old{names}", f"{_ON_CREATE} ? [] : {old}"),
                _variable(f"stated{names}", stated),
                _variable(f"new{names}", _once(f"variables.stated{names}")),
            ]
            validations.append(_validation(f"new{names}", USE, resource, shape))
    return _policy_of(shape, variables, validations, _conditions(shape))


def _policy_of(
    shape: Shape,
    variables: list[dict[str, str]],
    validations: list[dict[str, str]],
    conditions: list[dict[str, str]],
) -> Manifest:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_resources(*one) for one in shape.resources]},
        "matchConditions": conditions,
        "variables": variables,
        "validations": validations,
    }
    return _manifest(API, "ValidatingAdmissionPolicy", shape.name, spec=spec)


_ON_CREATE: Final = "request.operation == 'CREATE'"
_OWNERS: Final = "{o}.metadata.?ownerReferences.orValue([])"
_OWNED: Final = (
    f"{_OWNERS}.size() <= {LOOP_MAX} &&\n{_OWNERS}.exists(r, r.?controller.orValue(false))"
).format(o="object")
_OF_NODE: Final = (
    f"({_OWNERS}.size() > {LOOP_MAX} || {_OWNERS}.exists(r,\n"
    "r.?controller.orValue(false) && r.kind in ['DaemonSet', 'Node']))"
)
"""CEL: whether a DaemonSet or a node controls a pod, as far as it can be told."""
_IS_KEPT: Final = (
    f"{_OF_NODE.format(o='object')} &&\n({_ON_CREATE} || !{_OF_NODE.format(o='oldObject')})"
)


def _right(resource: str, verb: str, namespace: str, name: str = "") -> str:
    """Return the CEL of a question to the authorizer, for any user or service account."""
    named = f".name({name})" if name else ""
    asked = f".group('{RIGHTS_GROUP}').resource('{resource}').namespace({namespace})"
    return f"{asked}{named}.check('{verb}').allowed()"


def _conditions(shape: Shape) -> list[dict[str, str]]:
    """Return the conditions without which an object is not checked."""
    changed = [
        f"object.metadata.?{part} != oldObject.metadata.?{part}"
        for part in ("annotations", "labels", *(["ownerReferences"] if shape.kind == POD else []))
    ]
    if shape.kind in (POD_GROUP, WORKLOAD):
        changed.append("object.?spec != oldObject.?spec")
    if shape.kind == POD_GROUP:
        changed.append("object.?status.?phase != oldObject.?status.?phase")
    expression = " ||\n".join([_ON_CREATE, *changed])
    if shape.kind == POD:
        expression = f"({expression}) &&\n({_needs_right()})"
    found = [{"name": "states-something-else", "expression": expression}]
    if shape.kind in (POD_GROUP, WORKLOAD):
        # What a controller makes of a workload was checked there, and is checked again at its pods.
        delegated = f"authorizer{_right(PODS, DELEGATE, shape.namespace)}"
        found.append(
            {"name": "is-not-of-a-controller", "expression": f"!({_OWNED} &&\n{delegated})"}
        )
    return found


def _needs_right() -> str:
    """Return the CEL of whether a pod has something that a check looks at: most have nothing, and are done with here."""
    rows = [*privileged_keys(POD), *naming_keys(POD, QUEUES), *naming_keys(POD, POOLS)]
    found = []
    for part, form in (("annotations", ANNOTATION), ("labels", LABEL)):
        keys = [row.key for row in rows if form in row.form.split(" or ")]
        listed = _literal([*keys, *(key for key in fixed_keys() if key not in keys)])
        for o, unless in (("object", ""), ("oldObject", f"!({_ON_CREATE}) && ")):
            found.append(unless + _has_any(f"{o}.metadata.?{part}.orValue({{}})", listed))
    named = "object.spec.?priorityClassName.orValue('') != ''"
    return " ||\n".join(
        [f"{named} && {_for_muster('object.spec.?schedulerName')}", *found, _IS_KEPT]
    )


def _has_any(texts: str, keys: str) -> str:
    """Return the CEL of whether a map has one of some keys.

    The time of a loop in CEL can grow with the square of its length, so what a user writes is not looped over if it is long.
    """
    return f"({texts}.size() > {LOOP_MAX} ?\n{keys}.exists(k, k in {texts}) :\n{texts}.exists(k, k in\n{keys}))"


def _metadata(shape: Shape) -> list[dict[str, str]]:
    """Return the variables of the metadata of an object and of its pod templates, now and before."""
    if not shape.template:
        return [
            _variable("metas", "[object.metadata]"),
            _variable("oldMetas", f"{_ON_CREATE} ? [] : [oldObject.metadata]"),
        ]
    new, old = (shape.templates(o) for o in ("object", "oldObject"))
    of_templates = ".map(t, t.?metadata.orValue({}))"
    return [
        _variable("templates", new),
        _variable("oldTemplates", f"{_ON_CREATE} ? [] :\n{old}"),
        _variable("metas", f"[object.metadata] + variables.templates{of_templates}"),
        _variable(
            "oldMetas",
            f"{_ON_CREATE} ? [] : [oldObject.metadata] + variables.oldTemplates{of_templates}",
        ),
    ]


def _writer(shape: Shape) -> list[dict[str, str]]:
    """Return the variables that say about which account the authorizer is asked, and what a message calls it.

    A message expression must not depend on the authorizer, so the message for a pod of a controller names both accounts.
    """
    user = "'User \"' + request.userInfo.username + '\"'"
    if shape.kind != POD:
        return [_variable("writer", "authorizer"), _variable("who", user)]
    account = "object.spec.?serviceAccountName.orValue('default')"
    return [
        _variable("isOwned", f"{_ON_CREATE} && {_OWNED}"),
        _variable("mayDelegate", f"authorizer{_right(PODS, DELEGATE, shape.namespace)}"),
        _variable(
            "writer",
            "variables.isOwned && variables.mayDelegate ?\n"
            f"authorizer.serviceAccount({shape.namespace}, {account}) :\nauthorizer",
        ),
        _variable(
            "who",
            f"variables.isOwned ?\n'Service account \"' + {shape.namespace} + '/' + {account} + '\", "
            f"or ' + request.userInfo.username + ' if it is no controller,' :\n{user}",
        ),
    ]


def _changed_keys(shape: Shape, rows: tuple[Privilege, ...]) -> list[dict[str, str]]:
    """Return the variables that find the privileged keys of which the request changes a value.

    A value that needs no right counts as none.
    """
    harmless = {row.key: list(row.harmless) for row in rows if row.harmless}
    found = []
    if harmless:
        found.append(_variable("harmless", _literal(harmless)))
    if shape.template:
        every = _literal([row.key for row in rows])
        has = [_has_any(f"m.?{part}.orValue({{}})", every) for part in ("annotations", "labels")]
        either = " ||\n".join(has)
        metas = "(variables.metas + variables.oldMetas)"
        found.append(_variable("hasKeys", f"{metas}.exists(m,\n{either})"))
    for part, form in (("annotations", ANNOTATION), ("labels", LABEL)):
        keys = [row.key for row in rows if form in row.form.split(" or ")]
        fixed = [key for key in fixed_keys() if key not in keys] if shape.kind == POD else []
        listed = _literal(keys)
        if fixed:
            is_bound = f"!({_ON_CREATE}) && oldObject.spec.?nodeName.orValue('') != ''"
            listed = f"({listed} +\n({is_bound} ?\n{_literal(fixed)} : []))"
        stated = " || ".join(
            f"variables.{metas}.exists(m, k in m.?{part}.orValue({{}}))"
            for metas in ("metas", "oldMetas")
        )
        name = f"stated{part.capitalize()}"
        unless = "!variables.hasKeys ? [] :\n" if shape.template else ""
        found.append(_variable(name, f"{unless}{listed}.filter(k,\n{stated})"))
        value = "'=' + v"
        if harmless:
            value = f"v in variables.harmless[?k].orValue([]) ? '' : {value}"
        new, old = (f"{m}.?{part}[?k].optMap(v, {value}).orValue('')" for m in ("m", "o"))
        before = f"({_ON_CREATE} ? [''] : variables.oldMetas.map(o, {old}))"
        after = f"variables.metas.map(m, {new})"
        unless = "!(k in variables.harmless) && " if harmless else ""
        changed = (
            f"{after}.exists(v, v != '' && !(v in {before})) ||\n"
            f"{unless}{before}.exists(v, v != '' && !(v in {after}))"
        )
        found.append(
            _variable(f"changed{part.capitalize()}", f"variables.{name}.filter(k,\n{changed})")
        )
    whole = "variables.changedAnnotations + variables.changedLabels"
    if shape.kind == POD_GROUP:
        row = next(row for row in ROWS if row.key == PHASE)
        new, old = (f"{o}.?status.?phase.orValue('')" for o in ("object", "oldObject"))
        is_new = f"{_ON_CREATE} || {new} != {old}"
        phase = f"!({new} in {_literal(list(row.harmless))}) && ({is_new})"
        whole += f" +\n({phase} ? ['{PHASE}'] : [])"
    found.append(_variable("changedKeys", whole))
    return found


def _names(shape: Shape, resource: str, o: str) -> str:
    """Return the CEL of the names of queues, pools or priority classes that an object states; "" if it cannot."""
    metas = "variables.metas" if o == "object" else "variables.oldMetas"
    if resource == CLASSES:
        found = [f"[{one.format(o=o)}.orValue('')]" for one in shape.classes]
        specs = "variables.templates" if o == "object" else "variables.oldTemplates"
        if shape.template:
            found.append(
                f"{specs}.filter(t, {_for_muster('t.?spec.?schedulerName', shape.scheduler)})"
                ".map(t, t.?spec.?priorityClassName.orValue(''))"
            )
        if shape.kind == POD:
            named = f"{o}.spec.?priorityClassName.orValue('')"
            found.append(f"({_for_muster(f'{o}.spec.?schedulerName')} ? [{named}] : [])")
        return " +\n".join(found)
    found = [f"[{one.format(o=o)}.orValue('')]" for one in shape.queues if resource == QUEUES]
    for row in naming_keys(shape.kind, resource):
        for part, form in (("annotations", ANNOTATION), ("labels", LABEL)):
            if form in row.form.split(" or "):
                found.append(f"{metas}.map(m, m.?{part}[?'{row.key}'].orValue(''))")
    return " +\n".join(found)


def _for_muster(scheduler: str, default: str = UNCHECKED_SCHEDULER) -> str:
    return f"{scheduler}.orValue('{default}') != '{UNCHECKED_SCHEDULER}'"


def _once(names: str) -> str:
    """Return the CEL of names without those equal to the first one, which stands once: most name one only."""
    return f"{names}.size() == 0 ? [] : [{names}[0]] + {names}.filter(n, n != {names}[0])"


def _validation(names: str, verb: str, resource: str, shape: Shape) -> dict[str, str]:
    """Return the check that the writer has the right to each of some names."""
    asked = f"variables.writer{_right(resource, verb, shape.namespace, 'n')}"
    noun = {KEYS: "", QUEUES: "queue ", POOLS: "pool ", CLASSES: "priority class "}[resource]
    within = "" if shape.namespace == "''" else f" + ' in namespace \"' + {shape.namespace} + '\"'"
    means = (
        f'the verb "{verb}" on the resource "{resource}" of the API group "{RIGHTS_GROUP}", '
        f"with the name of the {noun.strip() or 'key'}"
    )
    return {
        "expression": f"variables.{names}.all(n,\n{asked})",
        "messageExpression": (
            f"variables.who + ' needs the right to {verb} {noun}\"' + "
            f"variables.{names}.join('\", \"') + '\"'{within} + ': {means}'"
        ),
        "message": f"A right is missing to {verb} what the object states: {means}",
        "reason": "Forbidden",
    }


def _size_validation(shape: Shape) -> dict[str, str]:
    """Return the check that an object has no more pod templates than can be looked at, or had as many before."""
    new, old = (f"{shape.entries_of(o)}.size() > {TEMPLATES_MAX}" for o in ("object", "oldObject"))
    return {
        "expression": f"!({new}) ||\n!({_ON_CREATE}) && {old}",
        "message": f"An object with more than {TEMPLATES_MAX} pod templates is refused.",
        "reason": "Forbidden",
    }


def _owner_validation(shape: Shape) -> dict[str, str]:
    """Return the check that only controllers make pods of DaemonSets and nodes, which are never evicted."""
    asked = f"authorizer{_right(KEYS, SET, shape.namespace, repr(OWNERS))}"
    means = (
        f'the verb "{SET}" on the resource "{KEYS}" of the API group "{RIGHTS_GROUP}", '
        f'with the name "{OWNERS}"'
    )
    needs = f"needs the right to state that a DaemonSet or Node controls a pod: {means}"
    return {
        "expression": f"!variables.isKept || variables.mayDelegate ||\n{asked}",
        "messageExpression": f"'User \"' + request.userInfo.username + '\" {needs}'",
        "message": f"The user {needs}",
        "reason": "Forbidden",
    }


def _budget_policy() -> Manifest:
    """Return the policy about budgets that allow no eviction at all."""
    fields = (
        ("spec.maxUnavailable", "maxUnavailable", "[dyn(0), dyn('0%')]"),
        ("spec.minAvailable", "minAvailable", "[dyn('100%')]"),
    )
    listed = " +\n".join(
        f"({_none(field, values)} ? ['{key}'] : [])" for key, field, values in fields
    )
    shape = Shape("muster-disruption-budgets", BUDGET, (("policy", ("poddisruptionbudgets",)),))
    variables = [*_writer(shape), _variable("changedKeys", listed)]
    return _policy_of(shape, variables, [_validation("changedKeys", SET, KEYS, shape)], [])


def _none(field: str, values: str) -> str:
    """Return the CEL of whether a budget comes to allow nothing by a field."""
    new, old = (f"{o}.spec.?{field}.orValue(dyn(''))" for o in ("object", "oldObject"))
    return f"{new} in {values} && ({_ON_CREATE} || {new} != {old})"


def _variable(name: str, expression: str) -> dict[str, str]:
    return {"name": name, "expression": expression}


def _literal(value: object) -> str:
    """Return a list or a map of texts in CEL."""
    if isinstance(value, dict):
        pairs = [f"'{key}': {_literal(one)}" for key, one in value.items()]
        return f"{{{', '.join(pairs)}}}"
    assert isinstance(value, list)
    return f"[{', '.join(repr(one) for one in value)}]"


def _resources(group: str, resources: tuple[str, ...]) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(resources),
    }


def _binding(policy: Manifest) -> Manifest:
    metadata = policy["metadata"]
    assert isinstance(metadata, dict)
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": list(EXCLUDED),
    }
    spec = {
        "policyName": metadata["name"],
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchExpressions": [excluded]}},
    }
    return _manifest(API, "ValidatingAdmissionPolicyBinding", str(metadata["name"]), spec=spec)


def _manifest(api: str, kind: str, name: str, **fields: object) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def _rule(resources: list[str], verbs: list[str], names: Iterable[str] = ()) -> Manifest:
    named = {"resourceNames": [*names]} if names else {}
    return {"apiGroups": [RIGHTS_GROUP], "resources": resources, **named, "verbs": verbs}


def _role(name: str, rules: list[Manifest], labels: dict[str, str] | None = None) -> Manifest:
    made = _manifest(f"{RBAC}/v1", "ClusterRole", name, rules=rules)
    if labels:
        made["metadata"] = {"name": name, "labels": labels}
    return made


def _aggregated(name: str, labels: dict[str, str]) -> Manifest:
    selected = {"clusterRoleSelectors": [{"matchLabels": labels}]}
    return _manifest(f"{RBAC}/v1", "ClusterRole", name, aggregationRule=selected, rules=[])


def _bound(name: str, subjects: list[Manifest]) -> Manifest:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    return _manifest(f"{RBAC}/v1", "ClusterRoleBinding", name, roleRef=reference, subjects=subjects)


def _group(name: str) -> Manifest:
    return {"apiGroup": RBAC, "kind": "Group", "name": name}


INTRO: Final = """\
What a tenant, a controller or an operator can write that changes a decision, what it can do to others, and what bounds it. The
table is in `events/privileges.py`; a test fails if the code reads a key that is not in it.

The scheduler sees what an object states, not who wrote it. So there are two bounds, one beside the other:

- **The policy of muster** bounds what may be stated, whatever the API server accepts (column *bounded by*, [policy](policy.md)).
- **Admission** asks whether the writer may state it (column *right*): ValidatingAdmissionPolicies, which the API server evaluates
  itself. There is no webhook to run. They need Kubernetes 1.30.

## Admission policies

The component `deploy/kustomize/components/admission`, or `admission.create: true` with Helm, installs policies, bindings and roles.
They ask RBAC for rights on resources of the API group `muster.sh` of which no object exists:

| verb | resource | name | asked when |
| --- | --- | --- | --- |
| `set` | `keys` | the key, such as `muster.sh/priority` | a key or field of the table with the right `set` is added, changed or removed |
| `use` | `queues`, `pools`, `priorityclasses` | the queue, pool or priority class | an object names one that it did not name before |
| `delegate` | `pods` | | a pod is created that has a controller, or a controller writes a workload or PodGroup that it controls |

The right is asked for in the namespace of the object, so a RoleBinding grants it for one namespace. A missing right is answered with
403 and a sentence:

    User "alice" needs the right to use queue "gold" in namespace "ml": the verb "use" on the resource "queues" of the API group
    "muster.sh", with the name of the queue

### Whose right counts

| object | whose right |
| --- | --- |
| Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job, CronJob, Volcano Job, JobTemplate and CronJob, training jobs of Kubeflow and MindCluster, JobSet, LeaderWorkerSet: their own metadata and that of their pod templates | the user that writes it |
| such an object, or a PodGroup, that has a controller | not asked, if the writer may `delegate` |
| PodGroup with its status, pod without a controller, Namespace, Queue, PodDisruptionBudget | the user that writes it |
| pod with a controller, at its creation | if the writer may `delegate`: the service account of the pod; else the writer |
| pod, at each update | the writer |

Updates of the status are checked as well, since annotations can change through it. Other kinds of workloads are not looked into; their pods are checked by their service account. So a namespace in which controllers create
pods that need a right grants it to the users and to the service accounts:

```yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: queue-gold, namespace: ml}
rules:
  - {apiGroups: [muster.sh], resources: [queues], resourceNames: [gold], verbs: [use]}
  - {apiGroups: [muster.sh], resources: [priorityclasses], resourceNames: [batch, urgent], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: queue-gold, namespace: ml}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: queue-gold}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: ml-users}
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:ml"}
```

### Roles

| ClusterRole | rights | bound to |
| --- | --- | --- |
| `muster-admission-scheduler` | `set` what muster writes | the account of muster |
| `muster-admission-devices` | `set` what device plugins and kubelets write | `system:nodes` and the accounts of `kube-system`; bind those of device plugins in other namespaces |
| `muster-admission-controllers` | `delegate`, and `set` what controllers write | the accounts of `kube-system` and `volcano-system`; bind those of other controllers, such as the namespaces of a training operator, JobSet, LeaderWorkerSet, or the Determined master |
| `muster-admission-default-queue` | `use` the queue `default` | everyone |
| `muster-queue-user` | `use` all queues, pools and priority classes | no account: a RoleBinding gives it to a namespace |
| `muster-admission-operator` | `set` all keys, `use` all | no account: a ClusterRoleBinding, or a RoleBinding for one namespace |

Operators change the order of jobs by GroupOverride objects, for which the role `muster-operator` is enough ([pools](pools.md)): no right to
set keys is needed for it. A ClusterRole of yours with the label `muster.sh/aggregate-to-admission-operator: "true"` or `muster.sh/aggregate-to-queue-user: "true"` adds its rules to the
last two.

### Switching it on

1. Install it with `validationActions: [Warn, Audit]` (Helm: `admission.validationActions`; kustomize: a patch of the bindings). Nothing is
   refused; users see a warning, and the audit log has the annotation `validation.policy.admission.k8s.io/validation_failure`.
2. Grant what is missing. If a PriorityClass is the global default, the API server writes it into every pod: grant `use` of it to
   `system:authenticated` and `system:serviceaccounts`.
3. Change the actions to `[Deny]`.

Objects that exist stay as they are: only a change is checked. A user may change all else of an object that states a key, and may give up
a protection (`volcano.sh/preemptable`, `muster.sh/preemptible`) without a right. Nothing is checked in `kube-system`; the
`namespaceSelector` of the bindings, or `admission.excludedNamespaces`, names other namespaces without tenants.

If the policies are removed, objects stay, and the policy of muster is the one bound that is left.

### What it does not check

- Rights with wildcards include these rights: a role with `*` for API groups, resources and verbs may set every key.
- Priority classes of pods for `default-scheduler`. Everything else is checked for every scheduler.
- Rights on `pods/binding` and `pods/status` belong to schedulers and kubelets only: a binding places a pod, and writes annotations.
- Labels of namespaces and nodes: who may change them may change what selects them.
- A `minAvailable` that is a number is compared with no number of pods.

### What it costs

The API server evaluates the policies in its own process. A pod that states nothing of the table ends at a match condition. Median of 300
creations, in turns, on two loaded cores: 3.6 ms without a check, 3.8 ms for a plain pod, 5.8 ms for one with a queue, a priority class and
a privileged key (`tests/e2e/test_admission_policies.py -s` prints it). A question to RBAC costs 350,000 of the 10,000,000 units that the API server allows a policy: a request with more than
about 25 different names that need a right is refused, and so is an object with more than 256 pod templates."""


def page(made: str) -> str:
    """Return the page of privileges."""
    lines = ["# Privileges", "", f"<!-- {made} -->", "", INTRO, ""]
    for section in SECTIONS:
        lines += [f"## {section.title}", ""]
        lines += ["| key | on | written by | effect | to others | bounded by | right |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [*map(_line, section.rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _line(row: Privilege) -> str:
    key = row.key if row.form == OBJECT or " " in row.key else f"`{row.key}`"
    cells = (
        key if row.form in (OBJECT, FIELD) else f"{key} ({row.form})",
        ", ".join(row.kinds),
        ", ".join(row.writers),
        row.effect,
        row.others,
        row.bound,
        "; ".join(_needed(row)),
    )
    return f"| {' | '.join(cells)} |"


def _needed(row: Privilege) -> Iterator[str]:
    if row.verb:
        yield f"`{row.verb}`" if row.verb == SET else f"`{row.verb}` of `{row.resource}`"
    values = ", ".join(f"`{one}`" for one in row.harmless if one)
    if values:
        yield f"none for {values}"
