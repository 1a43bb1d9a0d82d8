{{/* Name of the chart in labels. */}}
{{- define "pulsed.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of the objects: the release, with the chart's name unless it has that already. */}}
{{- define "pulsed.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "pulsed.name" . }}
{{- contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "pulsed.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pulsed.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of the pods; those of the chart's version are left out: a new chart that changes nothing restarts nothing. */}}
{{- define "pulsed.podLabels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{ with .Values.podLabels -}}
{{- toYaml . }}
{{ end -}}
{{ include "pulsed.selectorLabels" . }}
{{- end }}

{{- define "pulsed.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{ include "pulsed.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Annotations of an object: those of all, and its own. Call with (list . $own). */}}
{{- define "pulsed.annotations" -}}
{{- with mergeOverwrite (dict) (index . 0).Values.commonAnnotations (index . 1 | default dict) -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels and annotations of an object, with its own ones. Call with (list . $labels $annotations). */}}
{{- define "pulsed.metadata" -}}
labels:
  {{- include "pulsed.labels" (index . 0) | nindent 2 }}
  {{- with index . 1 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with include "pulsed.annotations" (list (index . 0) (index . 2)) }}
{{ . }}
{{- end }}
{{- end }}

{{- define "pulsed.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "pulsed.fullname" .) "default") }}
{{- end }}

{{/* Registry and repository of the image; a registry of all charts replaces that of the value. */}}
{{- define "pulsed.repository" -}}
{{- with .Values.global.imageRegistry }}
{{- . }}/{{ regexReplaceAll `^([^/]*[.:][^/]*|localhost)/` $.Values.image.repository "" }}
{{- else }}
{{- .Values.image.repository }}
{{- end }}
{{- end }}

{{/* The secrets for pulling the image, as a list in YAML; empty without any. */}}
{{- define "pulsed.imagePullSecrets" -}}
{{- $secrets := list }}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with uniq $secrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "pulsed.image" -}}
{{- $repository := include "pulsed.repository" . }}
{{- with .Values.image }}
{{- if .digest }}
{{- $repository }}@{{ .digest }}
{{- else }}
{{- $suffix := eq $.Values.source.kind "dcgmi" | ternary "-dcgmi" "" }}
{{- $repository }}:{{ .tag | default (printf "%s%s" $.Chart.AppVersion $suffix) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The host of a node-local source, from its `via` and `service`. Call with (list . $source). */}}
{{- define "pulsed.sourceHost" -}}
{{- $root := index . 0 }}
{{- $source := index . 1 }}
{{- if eq $source.via "service" }}
{{- $source.service.name }}.{{ $source.service.namespace | default $root.Release.Namespace }}.svc
{{- else }}
{{- "$(HOST_IP)" }}
{{- end }}
{{- end }}

{{/* Whether pulsed reads pods from the Kubernetes API: `true` or empty. */}}
{{- define "pulsed.readsPods" -}}
{{- with .Values.source }}
{{- if and (eq .kind "exporter") (eq .exporter.via "pod") (not .exporter.targets) }}true{{ end }}
{{- end }}
{{- end }}

{{/* The namespaces of the exporters' pods if they are named, with blanks between them; else empty. */}}
{{- define "pulsed.podNamespaces" -}}
{{- $names := (.Values.source.exporter.pod | default dict).namespaces | default list | join " " }}
{{- if ne $names "all" }}{{ $names }}{{ end }}
{{- end }}

{{/* Whether pulsed resolves the workloads of pods through the Kubernetes API: `true` or empty. */}}
{{- define "pulsed.resolvesWorkloads" -}}
{{- $enabled := dig "attribution" "workloads" "enabled" false (.Values | merge dict) }}
{{- if eq (toString $enabled) "auto" }}
{{- include "pulsed.readsPods" . }}
{{- else if and $enabled (ne .Values.source.kind "demo") }}true
{{- end }}
{{- end }}

{{/* Whether the image is a placeholder, in the reserved domain `example`: `true` or empty. */}}
{{- define "pulsed.imageIsPlaceholder" -}}
{{- if regexMatch `^[^/]*[.]example(:[0-9]+)?/` (include "pulsed.repository" .) }}true{{ end }}
{{- end }}

{{/* The plural of a kind in lower case, as pulsed requests it. */}}
{{- define "pulsed.plural" -}}
{{- if regexMatch "[^aeiou]y$" . }}{{ trimSuffix "y" . }}ies
{{- else if hasSuffix "s" . }}{{ . }}es
{{- else }}{{ . }}s
{{- end }}
{{- end }}

{{/* Rules of a role for the pods, and if $workloads for what controls them. Call with (list . $workloads). */}}
{{- define "pulsed.podRules" -}}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
{{- if index . 1 }}
- {apiGroups: [apps], resources: [replicasets], verbs: [get]}
- {apiGroups: [batch], resources: [jobs], verbs: [get]}
{{- range (index . 0).Values.attribution.workloads.kinds }}
{{- $kind := regexFind "^[^.]+" . | lower }}
- {apiGroups: [{{ trimPrefix "." (regexFind "\\..*" .) }}], resources: [{{ include "pulsed.plural" $kind }}], verbs: [get]}
{{- end }}
{{- end }}
{{- end }}

{{/* How workloads of pods are resolved, as configuration. */}}
{{- define "pulsed.workloads" -}}
{{- with .Values.attribution.workloads }}
{{- dict "enabled" true "name_labels" .nameLabels "kinds" .kinds "pod_labels" .podLabels | toYaml }}
{{- end }}
{{- end }}

{{/* Whether pulsed reads the Kubernetes API: `true` or empty. */}}
{{- define "pulsed.readsApi" -}}
{{- if or (include "pulsed.readsPods" .) (include "pulsed.resolvesWorkloads" .) }}true{{ end }}
{{- end }}

{{/* Whether pulsed needs a token for the Kubernetes API: `true` or empty. */}}
{{- define "pulsed.usesApi" -}}
{{- if or (include "pulsed.readsApi" .) .Values.nodeConditions.enabled }}true{{ end }}
{{- end }}

{{/* The TCP ports of the source and the Kubernetes API, as a YAML list. The name of a port does not match that of a pod in
the node's network, so that the exporters' usual number is beside it. */}}
{{- define "pulsed.sourcePorts" -}}
{{- $ports := list }}
{{- if eq .Values.source.kind "exporter" }}
{{- range .Values.source.exporter.targets }}
{{- $ports = append $ports (include "pulsed.urlPort" . | int) }}
{{- else }}
{{- if include "pulsed.readsPods" $ }}
{{- with $.Values.source.exporter.pod.port }}
{{- $ports = kindIs "string" . | ternary (list . 9400) (list (int .)) | concat $ports }}
{{- end }}
{{- else }}
{{- $ports = append $ports (int $.Values.source.exporter.port) }}
{{- end }}
{{- end }}
{{- else if eq .Values.source.kind "dcgmi" }}
{{- $host := .Values.source.dcgmi.host }}
{{- if not (hasPrefix "unix:" $host) }}
{{- $ports = append $ports (regexFind ":[0-9]+$" $host | trimPrefix ":" | default .Values.source.dcgmi.port | int) }}
{{- end }}
{{- end }}
{{- if include "pulsed.usesApi" . }}
{{- $ports = concat $ports .Values.networkPolicy.apiServerPorts }}
{{- end }}
{{- $exporter := (.Values.config.source | default dict).exporter | default dict }}
{{- $otlp := (.Values.config.publish | default dict).otlp | default dict }}
{{- $webhook := (.Values.config.notify | default dict).webhook | default dict }}
{{- range compact (list ($exporter.http | default dict).url $otlp.url $webhook.url) }}
{{- $ports = append $ports (include "pulsed.urlPort" . | int) }}
{{- end }}
{{- if $webhook.url_file }}
{{- $ports = append $ports 443 }}
{{- end }}
{{- $ports | uniq | toYaml }}
{{- end }}

{{/* The port of a URL. */}}
{{- define "pulsed.urlPort" -}}
{{- $url := urlParse . }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "https" | ternary "443" "80") }}
{{- end }}

{{/* The egress rule for DNS; OpenShift's pods of DNS have the port 5353. */}}
{{- define "pulsed.dnsEgress" -}}
- ports:
    {{- range list 53 5353 }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{/* The scheme of pulsed's own port. */}}
{{- define "pulsed.scheme" -}}
{{- if and .Values.webConfig.existingSecret .Values.webConfig.tls }}https{{ else }}http{{ end }}
{{- end }}

{{/* Prefix of all paths: that of the configuration, else the path of its external URL. */}}
{{- define "pulsed.routePrefix" -}}
{{- $web := .Values.config.web | default dict }}
{{- $prefix := hasKey $web "route_prefix" | ternary $web.route_prefix (urlParse ($web.external_url | default "")).path }}
{{- with trimAll "/" ($prefix | default "") }}/{{ . }}{{ end }}
{{- end }}

{{/* What of the configuration a reload does not change. */}}
{{- define "pulsed.fixedConfig" -}}
{{- pick (include "pulsed.config" . | fromYaml) "enable_lifecycle" "events" "history" "listen" "state_dir" "telemetry_path" "web" | toYaml }}
{{- end }}

{{/* pulsed's configuration file: the user's, and what the chart has values of its own for. */}}
{{- define "pulsed.config" -}}
{{- $source := dict "kind" .Values.source.kind }}
{{- if and (eq .Values.source.kind "exporter") .Values.source.exporter.targets }}
{{- $_ := set $source "exporter" (dict "targets" .Values.source.exporter.targets) }}
{{- end }}
{{- if include "pulsed.readsPods" . }}
{{- with .Values.source.exporter }}
{{- if ne (int .port) 9400 }}
{{- fail "source.exporter.port is for `via: hostIP` and `service`: set source.exporter.via to hostIP, the former default, or the port of the exporter's pods as source.exporter.pod.port" }}
{{- end }}
{{- $pods := dict "selectors" .pod.selectors "controllers" .pod.controllers "container_port" (kindIs "string" .pod.port | ternary .pod.port (int .pod.port)) "scheme" .scheme "path" .path }}
{{- with .pod.namespaces }}
{{- $_ := set $pods "namespaces" . }}
{{- end }}
{{- if eq $.Values.mode "fleet" }}
{{- $_ := set $pods "nodes" "all" }}
{{- end }}
{{- $_ := set $source "exporter" (dict "discovery" "kubernetes" "kubernetes" $pods) }}
{{- end }}
{{- end }}
{{- if and (eq .Values.source.kind "dcgmi") .Values.source.dcgmi.host }}
{{- $_ := set $source "dcgmi" (dict "host" .Values.source.dcgmi.host) }}
{{- end }}
{{- $base := dict "state_dir" "/var/lib/pulsed/state" }}
{{- if and (eq .Values.source.kind "exporter") (not .Values.source.exporter.targets) (has .Values.source.exporter.via (list "hostIP" "service")) }}
{{- $_ := set $base "source" (dict "exporter" (dict "own_node" true)) }}
{{- end }}
{{- if .Values.webConfig.existingSecret }}
{{- $_ := set $base "web" (dict "open_probes" true) }}
{{- end }}
{{- if .Values.kernelLog.enabled }}
{{- $_ := set $base "health" (dict "kernel_log" (include "pulsed.kernelLog" .)) }}
{{- end }}
{{- if .Values.hostFiles.enabled }}
{{- $_ := set $base "host" (dict "root" "/host") }}
{{- end }}
{{- if .Values.nodeConditions.enabled }}
{{- $_ := set $base "kubernetes" (dict "conditions" (dict "enabled" true)) }}
{{- end }}
{{- $chosen := dict }}
{{- if include "pulsed.resolvesWorkloads" . }}
{{- $_ := set $chosen "attribution" (dict "workloads" (include "pulsed.workloads" . | fromYaml)) }}
{{- end }}
{{- mergeOverwrite $base (deepCopy .Values.config) $chosen (dict "listen" (printf ":%d" (int .Values.port)) "source" $source) | toYaml }}
{{- end }}

{{/* Path of the kernel log in the container. A log file's folder is mounted, because log daemons replace the file. */}}
{{- define "pulsed.kernelLog" -}}
{{- if hasPrefix "/dev/" .Values.kernelLog.path }}{{ .Values.kernelLog.path }}
{{- else }}/var/log/node/{{ base .Values.kernelLog.path }}
{{- end }}
{{- end }}

{{/* TLS of a monitor: its own, else that of the web configuration. Call with (list . $monitor). */}}
{{- define "pulsed.tlsConfig" -}}
{{- $root := index . 0 }}
{{- $web := $root.Values.webConfig }}
{{- with (index . 1).tlsConfig }}
{{- toYaml . }}
{{- else }}
{{- if eq (include "pulsed.scheme" $root) "https" }}
{{- if $web.clientCertificates }}
{{- fail "webConfig.clientCertificates needs a tlsConfig with cert and keySecret in monitor" }}
{{- end }}
{{- if $web.caKey }}
ca: {secret: {name: {{ $web.existingSecret }}, key: {{ $web.caKey }}}}
serverName: {{ printf "%s.%s.svc" (include "pulsed.fullname" $root) $root.Release.Namespace }}
{{- else }}
insecureSkipVerify: true
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The endpoint of a monitor of either kind. */}}
{{- define "pulsed.endpoint" -}}
{{- $root := . }}
{{- $monitor := .Values.monitor -}}
port: http
path: {{ include "pulsed.routePrefix" $root }}{{ $root.Values.config.telemetry_path | default "/metrics" }}
scheme: {{ include "pulsed.scheme" $root }}
honorLabels: true
{{- with $monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with $monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with include "pulsed.tlsConfig" (list $root $monitor) }}
tlsConfig: {{- . | nindent 2 }}
{{- end }}
{{- with $monitor.basicAuth }}
basicAuth: {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  {{- if ne .Values.mode "fleet" }}
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance}
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
  {{- end }}
  # A GPU would be another one after each restart of the pod, and one without an owner would count for this namespace.
  - {action: labeldrop, regex: namespace|pod|container|service|endpoint}
  {{- with $monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $monitor.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* One probe's question. Call with (list . $path). */}}
{{- define "pulsed.question" -}}
{{- $root := index . 0 }}
{{- if and $root.Values.webConfig.existingSecret $root.Values.webConfig.clientCertificates -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ include "pulsed.routePrefix" $root }}{{ index . 1 }}, port: http, scheme: {{ include "pulsed.scheme" $root | upper }}}
{{- end }}
{{- end }}
