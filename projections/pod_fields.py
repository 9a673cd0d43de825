"""Every field of a pod's spec in the API of Kubernetes 1.37: read, without influence on where and when a pod is placed, or
refused. A test compares the lists with the Go types of `k8s.io/api` (tests/projections/test_pod_fields.py).

Fields are listed by the Go type that has them. A type that several fields have (`Container`, `LabelSelector`) stands once: what
it means follows from the field. A field of a newer API than this one is ignored, until it is added here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from events.limits import NAME_BYTES_MAX, storable
from projections.objects import PodSpec


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


READ: Final[Mapping[str, tuple[str, ...]]] = {
    "Affinity": _names("nodeAffinity podAffinity podAntiAffinity"),
    "Container": _names("image name ports resources restartPolicy"),
    "ContainerPort": _names("containerPort hostIP hostPort protocol"),
    "LabelSelector": _names("matchExpressions matchLabels"),
    "LabelSelectorRequirement": _names("key operator values"),
    "NodeAffinity": _names(
        "preferredDuringSchedulingIgnoredDuringExecution "
        "requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "NodeSelector": _names("nodeSelectorTerms"),
    "NodeSelectorRequirement": _names("key operator values"),
    "NodeSelectorTerm": _names("matchExpressions matchFields"),
    "PersistentVolumeClaimVolumeSource": _names("claimName"),
    "PodAffinity": _names(
        "preferredDuringSchedulingIgnoredDuringExecution "
        "requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "PodAffinityTerm": _names(
        "labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey"
    ),
    "PodAntiAffinity": _names(
        "preferredDuringSchedulingIgnoredDuringExecution "
        "requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "PodSpec": _names(
        "affinity containers initContainers nodeName nodeSelector overhead preemptionPolicy "
        "priority priorityClassName resources schedulerName schedulingGates tolerations "
        "topologySpreadConstraints volumes"
    ),
    "PreferredSchedulingTerm": _names("preference weight"),
    "ResourceRequirements": _names("limits requests"),
    "Toleration": _names("effect key operator value"),
    "TopologySpreadConstraint": _names(
        "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy "
        "topologyKey whenUnsatisfiable"
    ),
    "Volume": _names("name"),
    "VolumeSource": _names("ephemeral persistentVolumeClaim"),
    "WeightedPodAffinityTerm": _names("podAffinityTerm weight"),
}
"""Fields that distinguish classes of pods, or say where, when and in which order a pod is placed."""

WITHOUT_INFLUENCE: Final[Mapping[str, tuple[str, ...]]] = {
    "AWSElasticBlockStoreVolumeSource": _names("fsType partition readOnly volumeID"),
    "AppArmorProfile": _names("localhostProfile type"),
    "AzureDiskVolumeSource": _names("cachingMode diskName diskURI fsType kind readOnly"),
    "AzureFileVolumeSource": _names("readOnly secretName shareName"),
    "CSIVolumeSource": _names("driver fsType nodePublishSecretRef readOnly volumeAttributes"),
    "Capabilities": _names("add drop"),
    "CephFSVolumeSource": _names("monitors path readOnly secretFile secretRef user"),
    "CinderVolumeSource": _names("fsType readOnly secretRef volumeID"),
    "ClusterTrustBundleProjection": _names("labelSelector name optional path signerName user"),
    "ConfigMapEnvSource": _names("optional"),
    "ConfigMapKeySelector": _names("key optional"),
    "ConfigMapProjection": _names("items optional"),
    "ConfigMapVolumeSource": _names("defaultMode defaultUser items optional"),
    "Container": _names(
        "args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe "
        "resizePolicy restartPolicyRules securityContext startupProbe stdin stdinOnce "
        "terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts "
        "workingDir"
    ),
    "ContainerPort": _names("name"),
    "ContainerResizePolicy": _names("resourceName restartPolicy"),
    "ContainerRestartRule": _names("action exitCodes"),
    "ContainerRestartRuleOnExitCodes": _names("operator values"),
    "DownwardAPIProjection": _names("items"),
    "DownwardAPIVolumeFile": _names("fieldRef mode path resourceFieldRef user"),
    "DownwardAPIVolumeSource": _names("defaultMode defaultUser items"),
    "EmptyDirVolumeSource": _names("medium mode sizeLimit"),
    "EnvFromSource": _names("configMapRef prefix secretRef"),
    "EnvVar": _names("name value valueFrom"),
    "EnvVarSource": _names("configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef"),
    "EphemeralContainer": _names("targetContainerName"),
    "EphemeralContainerCommon": _names(
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports "
        "readinessProbe resizePolicy resources restartPolicy restartPolicyRules "
        "securityContext startupProbe stdin stdinOnce terminationMessagePath "
        "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
    ),
    "EphemeralVolumeSource": _names("volumeClaimTemplate"),
    "EvictionResponder": _names("name priority"),
    "ExecAction": _names("command"),
    "FCVolumeSource": _names("fsType lun readOnly targetWWNs wwids"),
    "FileKeySelector": _names("key optional path volumeName"),
    "FlexVolumeSource": _names("driver fsType options readOnly secretRef"),
    "FlockerVolumeSource": _names("datasetName datasetUUID"),
    "GCEPersistentDiskVolumeSource": _names("fsType partition pdName readOnly"),
    "GRPCAction": _names("mode port service"),
    "GitRepoVolumeSource": _names("directory repository revision"),
    "GlusterfsVolumeSource": _names("endpoints path readOnly"),
    "HTTPGetAction": _names("host httpHeaders path port protocol scheme"),
    "HTTPHeader": _names("name value"),
    "HostAlias": _names("hostnames ip"),
    "HostPathVolumeSource": _names("path type"),
    "ISCSIVolumeSource": _names(
        "chapAuthDiscovery chapAuthSession fsType initiatorName iqn iscsiInterface lun "
        "portals readOnly secretRef targetPortal"
    ),
    "ImageVolumeSource": _names("pullPolicy reference"),
    "KeyToPath": _names("key mode path user"),
    "Lifecycle": _names("postStart preStop stopSignal"),
    "LifecycleHandler": _names("exec httpGet sleep tcpSocket"),
    "LocalObjectReference": _names("name"),
    "ManagedFieldsEntry": _names(
        "apiVersion fieldsType fieldsV1 manager operation subresource time"
    ),
    "NFSVolumeSource": _names("path readOnly server"),
    "ObjectFieldSelector": _names("apiVersion fieldPath"),
    "ObjectMeta": _names(
        "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp "
        "finalizers generateName generation labels managedFields name namespace "
        "ownerReferences resourceVersion selfLink uid"
    ),
    "OwnerReference": _names("apiVersion blockOwnerDeletion controller kind name uid"),
    "PersistentVolumeClaimSpec": _names(
        "accessModes dataSource dataSourceRef resources selector storageClassName "
        "volumeAttributesClassName volumeMode volumeName"
    ),
    "PersistentVolumeClaimTemplate": _names("metadata spec"),
    "PersistentVolumeClaimVolumeSource": _names("readOnly"),
    "PhotonPersistentDiskVolumeSource": _names("fsType pdID"),
    "PodCertificateProjection": _names(
        "certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds "
        "signerName user userAnnotations"
    ),
    "PodDNSConfig": _names("nameservers options searches"),
    "PodDNSConfigOption": _names("name value"),
    "PodOS": _names("name"),
    "PodReadinessGate": _names("conditionType"),
    "PodResourceClaim": _names("name resourceClaimName resourceClaimTemplateName"),
    "PodSchedulingGate": _names("name"),
    "PodSchedulingGroup": _names("podGroupName"),
    "PodSecurityContext": _names(
        "appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser "
        "seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups "
        "supplementalGroupsPolicy sysctls windowsOptions"
    ),
    "PodSpec": _names(
        "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy "
        "enableServiceLinks ephemeralContainers evictionResponders hostAliases hostIPC "
        "hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets os "
        "readinessGates restartPolicy runtimeClassName securityContext serviceAccount "
        "serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
        "terminationGracePeriodSeconds"
    ),
    "PortworxVolumeSource": _names("fsType readOnly volumeID"),
    "Probe": _names(
        "failureThreshold initialDelaySeconds periodSeconds successThreshold "
        "terminationGracePeriodSeconds timeoutSeconds"
    ),
    "ProbeHandler": _names("exec grpc httpGet tcpSocket"),
    "ProjectedVolumeSource": _names("defaultMode defaultUser sources"),
    "QuobyteVolumeSource": _names("group readOnly registry tenant user volume"),
    "RBDVolumeSource": _names("fsType image keyring monitors pool readOnly secretRef user"),
    "ResourceClaim": _names("name request"),
    "ResourceFieldSelector": _names("containerName divisor resource"),
    "ResourceRequirements": _names("claims"),
    "SELinuxOptions": _names("level role type user"),
    "ScaleIOVolumeSource": _names(
        "fsType gateway protectionDomain readOnly secretRef sslEnabled storageMode "
        "storagePool system volumeName"
    ),
    "SeccompProfile": _names("localhostProfile type"),
    "SecretEnvSource": _names("optional"),
    "SecretKeySelector": _names("key optional"),
    "SecretProjection": _names("items optional"),
    "SecretVolumeSource": _names("defaultMode defaultUser items optional secretName"),
    "SecurityContext": _names(
        "allowPrivilegeEscalation appArmorProfile capabilities privileged procMount "
        "readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions "
        "seccompProfile windowsOptions"
    ),
    "ServiceAccountTokenProjection": _names("audience expirationSeconds path user"),
    "SleepAction": _names("seconds"),
    "StorageOSVolumeSource": _names("fsType readOnly secretRef volumeName volumeNamespace"),
    "Sysctl": _names("name value"),
    "TCPSocketAction": _names("host port"),
    "Toleration": _names("tolerationSeconds"),
    "TypedLocalObjectReference": _names("apiGroup kind name"),
    "TypedObjectReference": _names("apiGroup kind name namespace"),
    "VolumeDevice": _names("devicePath name"),
    "VolumeMount": _names(
        "bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly subPath "
        "subPathExpr"
    ),
    "VolumeProjection": _names(
        "clusterTrustBundle configMap downwardAPI podCertificate secret serviceAccountToken"
    ),
    "VolumeResourceRequirements": _names("limits requests"),
    "VolumeSource": _names(
        "azureFile cephfs configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo "
        "glusterfs hostPath image nfs photonPersistentDisk projected quobyte scaleIO secret "
        "storageos"
    ),
    "VsphereVirtualDiskVolumeSource": _names("fsType storagePolicyID storagePolicyName volumePath"),
    "WindowsSecurityContextOptions": _names(
        "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName"
    ),
}
"""Fields that change neither where nor when a pod is placed. Some act through others: the API server writes `hostPort` into the
ports of a pod with `hostNetwork`, and the overhead and node selector of its `runtimeClassName` into its spec; the `claims` of
a container name entries of `resourceClaims`. What an ephemeral volume states of its claim is read of the claim."""

_GROUP: Final = "scheduling groups are not supported"
_DISK: Final = "inline disks are not supported: name a claim"

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "PodSpec": {
        "resourceClaims": "resourceClaims are not supported",
        "schedulingGroup": f"schedulingGroup: {_GROUP}",
        "workloadRef": f"workloadRef: {_GROUP}",
    },
    "VolumeSource": {
        "awsElasticBlockStore": _DISK,
        "azureDisk": _DISK,
        "cinder": _DISK,
        "gcePersistentDisk": _DISK,
        "iscsi": _DISK,
        "portworxVolume": _DISK,
        "rbd": _DISK,
        "vsphereVolume": _DISK,
    },
}
"""Fields that constrain where or when a pod may run and that muster does not support, with the text of the refusal. Inline disks
conflict with each other on a node, or count against the limits of their driver."""

OLDER: Final = ("PodSpec.workloadRef",)
"""Refused fields that older API servers have (1.35) and that the newest types no longer name."""

_DISK_MARKS: Final = tuple([f'"{name}"'.encode() for name in REFUSED["VolumeSource"]])
_VOLUMES: Final = msgspec.json.Decoder(list[dict[str, Raw]] | None)


def refused_field(spec: PodSpec) -> str:
    """Return why the first field that muster does not support refuses a pod; "" if there is none."""
    return next(_refused_fields(spec), "")


def _refused_fields(spec: PodSpec) -> Iterator[str]:
    for name, text in REFUSED["PodSpec"].items():
        if bytes(getattr(spec, name)) not in (b"", b"null", b"[]"):
            yield text
    volumes = bytes(spec.volumes)
    if not any(mark in volumes for mark in _DISK_MARKS):
        return
    try:
        stated = _VOLUMES.decode(volumes) or []
    except msgspec.DecodeError:
        return  # The reader of the claims reports it.
    for volume in stated:
        for name, text in REFUSED["VolumeSource"].items():
            if bytes(volume.get(name, b"")) not in (b"", b"null"):
                yield f"volume {_name_of(volume)} ({name}): {text}"


def _name_of(volume: Mapping[str, Raw]) -> str:
    try:
        name = msgspec.json.decode(volume.get("name", Raw(b'""')), type=str)
    except msgspec.DecodeError:
        return "?"
    return storable(name[:NAME_BYTES_MAX])
