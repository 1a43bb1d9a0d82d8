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

{{/* Whether the adapter makes its certificate: `true` or empty. */}}
{{- define "pulsed.adapter.makesCertificate" -}}
{{- if and .Values.adapter.apis (not .Values.adapter.tls.existingSecret) }}true{{ end }}
{{- end }}

{{/* Whether it keeps files for TLS current: `true` or empty. */}}
{{- define "pulsed.adapter.keepsFiles" -}}
{{- if and .Values.adapter.apis (or (include "pulsed.adapter.makesCertificate" .) (not .Values.adapter.frontProxy.ca)) }}true{{ end }}
{{- end }}

{{/* Whether it verifies the daemons' certificates: `true` or empty. */}}
{{- define "pulsed.adapter.verifiesDaemons" -}}
{{- if and (eq (include "pulsed.scheme" .) "https") .Values.webConfig.caKey }}true{{ end }}
{{- end }}

{{/* Names of the APIServices, as a YAML list. */}}
{{- define "pulsed.adapter.apiServices" -}}
{{- $versions := dict "custom" (list "v1beta2" "v1beta1") "external" (list "v1beta1") }}
{{- range $api := .Values.adapter.apis }}
{{- range get $versions $api }}
- {{ . }}.{{ $api }}.metrics.k8s.io
{{- end }}
{{- end }}
{{- end }}

{{/* Its configuration file: the user's, and what follows from the daemons' values. */}}
{{- define "pulsed.adapter.config" -}}
{{- $selector := printf "app.kubernetes.io/name=%s,app.kubernetes.io/instance=%s" (include "pulsed.name" .) .Release.Name }}
{{- $daemons := dict "selectors" (list $selector) "namespaces" (list .Release.Namespace) "container_port" "http" "scheme" (include "pulsed.scheme" .) }}
{{- with include "pulsed.routePrefix" . }}
{{- $_ := set $daemons "route_prefix" . }}
{{- end }}
{{- if and .Values.adapter.apis .Values.adapter.frontProxy.ca .Values.adapter.frontProxy.names }}
{{- $_ := set $daemons "client_names" .Values.adapter.frontProxy.names }}
{{- end }}
{{- if include "pulsed.adapter.keepsFiles" . }}
{{- $serving := dict "folder" "/run/pulsed-tls" }}
{{- if include "pulsed.adapter.makesCertificate" . }}
{{- $_ := set $serving "secret" (printf "%s-tls" (include "pulsed.adapter.fullname" .)) }}
{{- $_ := set $serving "service" (include "pulsed.adapter.fullname" .) }}
{{- $_ := set $serving "api_services" (include "pulsed.adapter.apiServices" . | fromYamlArray) }}
{{- end }}
{{- $_ := set $daemons "serving" $serving }}
{{- end }}
{{- $base := dict }}
{{- if eq (include "pulsed.scheme" .) "https" }}
{{- /* Certificates are not for the addresses of pods, but for the Service. */}}
{{- $tls := dict "insecure_skip_verify" true }}
{{- if include "pulsed.adapter.verifiesDaemons" . }}
{{- $tls = dict "ca_file" "/etc/pulsed-daemons/ca.crt" "server_name" (printf "%s.%s.svc" (include "pulsed.fullname" .) .Release.Namespace) }}
{{- end }}
{{- $base = dict "source" (dict "exporter" $tls) }}
{{- end }}
{{- $listen := printf ":%d" (int .Values.adapter.httpPort) }}
{{- if .Values.adapter.apis }}
{{- $_ := set $daemons "plain_listen" $listen }}
{{- $listen = printf ":%d" (int .Values.adapter.port) }}
{{- end }}
{{- $own := dict "listen" $listen "adapter" $daemons "attribution" (dict "workloads" (include "pulsed.workloads" . | fromYaml)) }}
{{- mergeOverwrite $base (deepCopy .Values.adapter.config) $own | toYaml }}
{{- end }}

{{/* Its web configuration: TLS, and the authority of the API server's client certificate. */}}
{{- define "pulsed.adapter.web" -}}
{{- $folder := empty .Values.adapter.tls.existingSecret | ternary "/run/pulsed-tls" "/etc/pulsed-tls" }}
{{- $tls := dict "cert_file" (printf "%s/tls.crt" $folder) "key_file" (printf "%s/tls.key" $folder) }}
{{- if .Values.adapter.frontProxy.ca }}
{{- /* With names, the adapter itself refuses requests without a certificate. */}}
{{- $_ := set $tls "client_auth_type" (ternary "VerifyClientCertIfGiven" "RequireAndVerifyClientCert" (not (empty .Values.adapter.frontProxy.names))) }}
{{- $_ := set $tls "client_ca_file" "front-proxy-ca.crt" }}
{{- else }}
{{- $_ := set $tls "client_auth_type" "VerifyClientCertIfGiven" }}
{{- $_ := set $tls "client_ca_file" "/run/pulsed-tls/front-proxy-ca.crt" }}
{{- end }}
{{- dict "tls_server_config" $tls | toYaml }}
{{- end }}
