{{/* The name of everything: that of the release, with `muster` in it. */}}
{{- define "muster.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains "muster" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-muster" (.Release.Name | trunc 33 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "muster.metadata" -}}
name: {{ include "muster.name" . }}
labels:
  {{- include "muster.labels" . | nindent 2 }}
{{- end -}}

{{/* The settings: those of the file, and what the values say instead. */}}
{{- define "muster.settings" -}}
{{- $file := .Files.Get "files/muster.yaml" | fromYaml -}}
{{- if .Values.tenants.create -}}
{{- $file = mergeOverwrite $file (dict "tenants_listen" "0.0.0.0:8443" "tenants_certificate_file" "tls/tls.crt" "tenants_key_file" "tls/tls.key") -}}
{{- end -}}
{{- mergeOverwrite $file .Values.settings | toYaml -}}
{{- end -}}

{{/* The policy of the values, which may be Volcano's ConfigMap. As `muster run`, it refuses one that keeps no quotas unasked. */}}
{{- define "muster.policy" -}}
{{- if .Values.policy -}}
{{- $policy := .Values.policy -}}
{{- if eq (toString $policy.kind) "ConfigMap" -}}
{{- $text := get ($policy.data | default dict) "volcano-scheduler.conf" -}}
{{- if not $text -}}{{- fail "policy: a ConfigMap without a policy: it must be under data.volcano-scheduler.conf" -}}{{- end -}}
{{- $policy = fromYaml $text -}}
{{- end -}}
{{- if not (or (hasKey $policy "actions") (hasKey $policy "tiers") (hasKey $policy "pools")) -}}
{{- fail (printf "policy: %s is not a policy: it has neither actions nor tiers" (ternary (printf "a manifest of kind %v" $policy.kind) (printf "a document with the keys %s" (keys $policy | sortAlpha | join ", ")) (hasKey $policy "kind"))) -}}
{{- end -}}
{{- $quota := false -}}
{{- range $tier := $policy.tiers | default list -}}
{{- range $plugin := $tier.plugins | default list -}}
{{- if has $plugin.name (list "capacity" "capacity-card" "proportion") -}}{{- $quota = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $pool := $policy.pools | default list -}}
{{- if and (ne (toString ($pool.decider | default "session")) "session") (not (hasKey $policy "tiers")) -}}{{- $quota = true -}}{{- end -}}
{{- end -}}
{{- if not (or $quota (eq (toString $policy.quotas) "none")) -}}
{{- fail "policy: no plugin keeps quotas, so that every queue would be unlimited. Name one of capacity, capacity-card, proportion, or write `quotas: none`" -}}
{{- end -}}
{{ $policy | toYaml }}
{{- else -}}
{{ .Files.Get "files/policy.yaml" }}
{{- end -}}
{{- end -}}

{{- define "muster.subject" -}}
- kind: ServiceAccount
  name: {{ include "muster.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
