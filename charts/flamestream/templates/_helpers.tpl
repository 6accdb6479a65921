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
