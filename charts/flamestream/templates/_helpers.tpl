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
{{ include "flamestream.zookeeperHost" . }}:2181
{{- else -}}
{{ fail "name a ZooKeeper in zookeeper.servers, or set zookeeper.enabled" }}
{{- end -}}
{{- end }}

{{/* The chart's own server, by the name that its certificate has. */}}
{{- define "flamestream.zookeeperHost" -}}
{{ include "flamestream.name" . }}-zookeeper.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Pods of the operator: one that waits beside those that lead. */}}
{{- define "flamestream.replicas" -}}
{{- $shards := int .Values.operator.shards -}}
{{- $replicas := int .Values.operator.replicas | default (add1 $shards) -}}
{{- if lt (int $replicas) $shards -}}
{{ fail (printf "operator.replicas: %d pods cannot lead %d shards: leave it out, or lower operator.shards" (int $replicas) $shards) }}
{{- end -}}
{{ $replicas }}
{{- end }}

{{/* The Services that workers dial, one a shard: their names by spaces. */}}
{{- define "flamestream.coordinators" -}}
{{- $name := printf "%s-coordinators" (include "flamestream.name" .) -}}
{{ $name }}{{ range until (int .Values.operator.shards) }}{{ if . }} {{ $name }}-{{ . }}{{ end }}{{ end }}
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

{{/* The Secret with the authority of ZooKeeper's certificates, and with the key of the chart's own server: the user's, or the chart's own. */}}
{{- define "flamestream.tlsSecret" -}}
{{- if and .Values.zookeeper.servers (not .Values.zookeeper.tls.secret) -}}
{{ fail "name the Secret with the authority of your servers' certificates (ca.crt) in zookeeper.tls.secret, or set zookeeper.tls.enabled to false: then who sees the network sees logins" }}
{{- end -}}
{{ .Values.zookeeper.tls.secret | default (printf "%s-zookeeper-tls" (include "flamestream.name" .)) }}
{{- end }}

{{/* What is in it, as JSON of base64: as it is there, or a new authority and a key that it has signed, the same wherever this is asked. */}}
{{- define "flamestream.tls" -}}
{{- if not (hasKey .Values "madeTls") -}}
{{- $data := dig "data" dict (lookup "v1" "Secret" .Release.Namespace (include "flamestream.tlsSecret" .) | default dict) -}}
{{- if not (or $data .Values.zookeeper.tls.secret) -}}
{{- $host := include "flamestream.zookeeperHost" . -}}
{{- $ca := genCA (printf "authority of %s" $host) 3650 -}}{{/* another name than the server's, or that would seem to be its own authority */}}
{{- $server := genSignedCert $host nil (list $host) 3650 $ca -}}
{{- $data = dict "ca.crt" (b64enc $ca.Cert) "tls.crt" (b64enc $server.Cert) "tls.key" (b64enc $server.Key) -}}
{{- end -}}
{{- $_ := set .Values "madeTls" $data -}}
{{- end -}}
{{ toJson .Values.madeTls }}
{{- end }}

{{/* Pods read login and certificates when they start, so they are replaced when those are. */}}
{{- define "flamestream.zookeeperAnnotations" -}}
flamestream.dev/login: {{ include "flamestream.login" . | sha256sum | trunc 16 | quote }}
{{- if .Values.zookeeper.tls.enabled }}
flamestream.dev/tls: {{ include "flamestream.tls" . | sha256sum | trunc 16 | quote }}
{{- end }}
{{- end }}

{{/* Where jobs may be, as the namespaceSelector of a NetworkPolicy. */}}
{{- define "flamestream.jobNamespaces" -}}
{{- if .Values.operator.watchNamespaces -}}
{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: {{ toJson .Values.operator.watchNamespaces }}}]}
{{- else -}}
{{ toJson .Values.operator.namespaceSelector }}
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
