{{/* Name of the adapter's objects. */}}
{{- define "pulsed.adapter.fullname" -}}
{{- include "pulsed.fullname" . | trunc 55 | trimSuffix "-" }}-adapter
{{- end }}

{{/* Name of its objects without a namespace. */}}
{{- define "pulsed.adapter.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "pulsed.adapter.fullname" .) }}
{{- end }}

{{- define "pulsed.adapter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pulsed.name" . }}-adapter
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pulsed.adapter.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{ include "pulsed.adapter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Its configuration file: the user's, and what follows from the daemons' values. */}}
{{- define "pulsed.adapter.config" -}}
{{- $selector := printf "app.kubernetes.io/name=%s,app.kubernetes.io/instance=%s" (include "pulsed.name" .) .Release.Name }}
{{- $daemons := dict "selectors" (list $selector) "namespaces" (list .Release.Namespace) "container_port" "http" "scheme" (include "pulsed.scheme" .) }}
{{- with include "pulsed.routePrefix" . }}
{{- $_ := set $daemons "route_prefix" . }}
{{- end }}
{{- if and .Values.adapter.frontProxy.ca .Values.adapter.frontProxy.names }}
{{- $_ := set $daemons "client_names" .Values.adapter.frontProxy.names }}
{{- end }}
{{- $base := dict }}
{{- if eq (include "pulsed.scheme" .) "https" }}
{{- /* Certificates are not for the addresses of pods. */}}
{{- $base = dict "source" (dict "exporter" (dict "insecure_skip_verify" true)) }}
{{- end }}
{{- $own := dict "listen" (printf ":%d" (int .Values.adapter.port)) "adapter" $daemons "attribution" (dict "workloads" (include "pulsed.workloads" . | fromYaml)) }}
{{- mergeOverwrite $base (deepCopy .Values.adapter.config) $own | toYaml }}
{{- end }}

{{/* Its web configuration: TLS, and the authority of the API server's client certificate. */}}
{{- define "pulsed.adapter.web" -}}
{{- $tls := dict "cert_file" "/etc/pulsed-tls/tls.crt" "key_file" "/etc/pulsed-tls/tls.key" }}
{{- if .Values.adapter.frontProxy.ca }}
{{- /* With names, the adapter itself refuses requests without a certificate, but not probes. */}}
{{- $_ := set $tls "client_auth_type" (ternary "VerifyClientCertIfGiven" "RequireAndVerifyClientCert" (not (empty .Values.adapter.frontProxy.names))) }}
{{- $_ := set $tls "client_ca_file" "front-proxy-ca.crt" }}
{{- end }}
{{- dict "tls_server_config" $tls | toYaml }}
{{- end }}

{{/* A probe; kubelets have no client certificate. Call with (list . $path). */}}
{{- define "pulsed.adapter.probe" -}}
{{- with (index . 0).Values.adapter.frontProxy }}
{{- if and .ca (not .names) -}}
tcpSocket: {port: https}
{{- else -}}
httpGet: {path: {{ index $ 1 }}, port: https, scheme: HTTPS}
{{- end }}
{{- end }}
{{- end }}
