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

{{- define "muster.policy" -}}
{{- if .Values.policy -}}
{{ .Values.policy | toYaml }}
{{- else -}}
{{ .Files.Get "files/policy.yaml" }}
{{- end -}}
{{- end -}}

{{- define "muster.subject" -}}
- kind: ServiceAccount
  name: {{ include "muster.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
