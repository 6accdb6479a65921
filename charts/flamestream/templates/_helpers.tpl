{{- define "flamestream.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "flamestream.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "flamestream.labels" -}}
app.kubernetes.io/name: flamestream
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "flamestream.selector" -}}
app.kubernetes.io/name: flamestream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "flamestream.zookeeper" -}}
{{- if .Values.zookeeper.servers -}}
{{ .Values.zookeeper.servers }}
{{- else if .Values.zookeeper.enabled -}}
{{ include "flamestream.name" . }}-zookeeper.{{ .Release.Namespace }}.svc:2181
{{- else -}}
{{ fail "name a ZooKeeper in zookeeper.servers, or set zookeeper.enabled" }}
{{- end -}}
{{- end }}

{{/* What jobs may choose, as JSON: the chart's own S3 is among the stores. */}}
{{- define "flamestream.allow" -}}
{{- $stores := .Values.allow.storeEndpoints -}}
{{- if .Values.s3.enabled -}}
{{- $stores = append $stores (printf "http://%s-s3.%s.svc:7070" (include "flamestream.name" .) .Release.Namespace) -}}
{{- end -}}
{{- toJson (set (deepCopy .Values.allow) "storeEndpoints" $stores) -}}
{{- end }}

{{/* The Secret with the operator's login for ZooKeeper: the user's, or the chart's own. */}}
{{- define "flamestream.loginSecret" -}}
{{ .Values.zookeeper.loginSecret | default (printf "%s-zookeeper" (include "flamestream.name" .)) }}
{{- end }}

{{/* What is in it, as base64: as it is there, or a new one, which is the same wherever this is asked in one rendering. */}}
{{- define "flamestream.login" -}}
{{- if not (hasKey .Values "madeLogin") -}}
{{- $there := lookup "v1" "Secret" .Release.Namespace (include "flamestream.loginSecret" .) | default dict -}}
{{- $new := ternary "" (printf "operator:%s" (randAlphaNum 48)) (not (empty .Values.zookeeper.loginSecret)) | b64enc -}}
{{- $_ := set .Values "madeLogin" (dig "data" "login" $new $there) -}}
{{- end -}}
{{ .Values.madeLogin }}
{{- end }}

{{/* Pods read the login when they start, so they are replaced when it is. */}}
{{- define "flamestream.loginAnnotation" -}}
flamestream.dev/login: {{ include "flamestream.login" . | sha256sum | trunc 16 | quote }}
{{- end }}

{{/* Where jobs may be, as the namespaceSelector of a NetworkPolicy. */}}
{{- define "flamestream.jobNamespaces" -}}
{{- if .Values.operator.watchNamespaces -}}
{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: {{ toJson .Values.operator.watchNamespaces }}}]}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- define "flamestream.podSecurity" -}}
runAsNonRoot: true
runAsUser: 185
runAsGroup: 185
fsGroup: 185
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "flamestream.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The claim's folder becomes our user's. */}}
{{- define "flamestream.volumePermissions" -}}
- name: permissions
  image: {{ include "flamestream.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [chown, "185:185", /data]
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN]}
  volumeMounts: [{name: data, mountPath: /data}]
{{- end }}
