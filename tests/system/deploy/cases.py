"""Values that the chart must take, one of each kind with a golden rendering, and values that it refuses."""

from __future__ import annotations

from tests.system.deploy.chart import NAMESPACE, Values

HOST = "10.0.0.7"
"""The address of the node, as the kubelet would fill it in."""

SOURCES: dict[str, Values] = {
    "exporter in a pod": {},
    "exporter on the node": {"source": {"exporter": {"via": "hostIP"}}},
    "exporter by a Service": {"source": {"exporter": {"via": "service", "service": {"namespace": "gpu-operator"}}}},
    "exporters by URL": {"source": {"exporter": {"targets": ["http://a:9400/metrics", "https://b:9400/metrics"]}}},
    "dcgmi on the node": {"source": {"kind": "dcgmi"}},
    "dcgmi by a Service": {"source": {"kind": "dcgmi", "dcgmi": {"via": "service"}}},
    "dcgmi by its address": {"source": {"kind": "dcgmi", "dcgmi": {"host": "unix:///run/nv.sock"}}},
    "driver": {"source": {"kind": "nvml"}},
    "demo": {"source": {"kind": "demo"}},
}

REACHED: dict[str, tuple[str, object]] = {
    "exporter in a pod": ("exporter", "kubernetes"),
    "exporter on the node": ("exporter", (f"http://{HOST}:9400/metrics",)),
    "exporter by a Service": ("exporter", ("http://nvidia-dcgm-exporter.gpu-operator.svc:9400/metrics",)),
    "exporters by URL": ("exporter", ("http://a:9400/metrics", "https://b:9400/metrics")),
    "dcgmi on the node": ("dcgmi", f"{HOST}:5555"),
    "dcgmi by a Service": ("dcgmi", f"nvidia-dcgm.{NAMESPACE}.svc:5555"),
    "dcgmi by its address": ("dcgmi", "unix:///run/nv.sock"),
    "driver": ("nvml", None),
    "demo": ("demo", None),
}

WEB: dict[str, Values] = {
    "plain": {},
    "TLS": {"webConfig": {"existingSecret": "web"}},
    "users": {"webConfig": {"existingSecret": "web", "tls": False}},
    "client certificates": {"webConfig": {"existingSecret": "web", "clientCertificates": True}},
}

TLS = {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}, "serverName": "pulsed"}
USER = {"username": {"name": "user", "key": "name"}, "password": {"name": "user", "key": "password"}}
MONITOR: Values = {
    "namespace": "prometheus",
    "labels": {"release": "prometheus"},
    "interval": "15s",
    "scrapeTimeout": "10s",
    "tlsConfig": TLS,
    "basicAuth": USER,
    "relabelings": [{"sourceLabels": ["__meta_kubernetes_namespace"], "targetLabel": "where"}],
    "metricRelabelings": [{"action": "labeldrop", "regex": "mig_profile"}],
}
MONITORS: dict[str, Values] = {
    "unscraped": {},
    "ServiceMonitor": {"monitor": {"kind": "ServiceMonitor"}},
    "PodMonitor": {"monitor": {"kind": "PodMonitor"}},
}

FLEET: Values = {"mode": "fleet"}

SINGLE: dict[str, Values] = {
    "fleet": {**FLEET, **MONITORS["ServiceMonitor"], "tolerations": [{"operator": "Exists"}]},
    "exporter pods of one namespace": {
        "source": {"exporter": {"pod": {"selectors": ["a in (b, c)"], "namespaces": ["gpu-operator"], "port": 9500}}},
        "attribution": {"workloads": {"enabled": False}},
    },
    "exporter pods of two namespaces": {
        "source": {"exporter": {"pod": {"namespaces": ["gpu-operator", "ml"], "controllers": ["DaemonSet.kruise.io"]}}},
        "attribution": {"workloads": {"enabled": False}},
    },
    "exporter pods of all namespaces": {"source": {"exporter": {"pod": {"namespaces": ["all"], "controllers": []}}}},
    "own role": {"rbac": {"create": False}},
    "values of an older chart": {
        "source": {"exporter": {"via": "hostIP", "pod": None, "port": 9401}},
        "rbac": None,
    },
    "no Service": {"service": {"enabled": False}},
    "somebody else's ServiceAccount": {"serviceAccount": {"create": False, "name": "mine"}},
    "the default ServiceAccount": {"serviceAccount": {"create": False}},
    "no network policy": {"networkPolicy": {"enabled": False}},
    "driver of the default runtime": {
        "source": {"kind": "nvml", "nvml": {"runtimeClassName": "", "visibleDevices": "0,1"}},
    },
    "processes of the node": {
        "source": {"kind": "nvml"},
        "hostPID": True,
        "config": {"attribution": {"processes": {"enabled": True}, "process_owners": True}},
    },
    "narrow network policy": {
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"name": "prometheus"}}}],
            "extraEgress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
        }
    },
    "monitor with a client certificate": {
        **WEB["client certificates"],
        "monitor": {
            "kind": "ServiceMonitor",
            "tlsConfig": TLS | {"cert": TLS["ca"], "keySecret": {"name": "a", "key": "b"}},
        },
    },
    "monitor that verifies the certificate": {
        "webConfig": {"existingSecret": "web", "caKey": "ca.crt"},
        **MONITORS["PodMonitor"],
    },
    "Service of the node": {"service": {"nodeLocal": True}},
    "whole ServiceMonitor": {"monitor": {**MONITOR, "kind": "ServiceMonitor"}},
    "whole PodMonitor": {"monitor": {**MONITOR, "kind": "PodMonitor", "labelLimit": 63}},
    "own rules": {
        "prometheusRule": {
            "enabled": True,
            "namespace": "prometheus",
            "labels": {"release": "prometheus"},
            "exclude": ["pulsed-alerts-use"],
        }
    },
    "kernel log in a file": {"kernelLog": {"enabled": True}},
    "kernel log of the device": {"kernelLog": {"enabled": True, "path": "/dev/kmsg"}},
    "files of the host": {"hostFiles": {"enabled": True}},
    "fleet with volumes": {**FLEET, "fleet": {"stateSize": "1Gi", "storageClassName": "fast"}},
    "conditions of the node": {"nodeConditions": {"enabled": True}},
    "conditions and the host engine": {"source": {"kind": "dcgmi"}, "nodeConditions": {"enabled": True}},
    "pods from the kubelet": {"attribution": {"kubelet": {"enabled": True}}},
    "workloads of pods": {
        "source": {"exporter": {"via": "hostIP"}},
        "attribution": {
            "workloads": {
                "enabled": True,
                "nameLabels": ["app.kubernetes.io/name"],
                "kinds": ["RayCluster.ray.io", "NetworkPolicy.x.io", "Process.x.io", "Gateway.x.io"],
                "podLabels": ["team", "example.com/*"],
            }
        },
    },
    "workloads of pods in one namespace": {"source": {"exporter": {"pod": {"namespaces": ["gpu-operator"]}}}},
    "workloads with the host engine": {"source": {"kind": "dcgmi"}, "attribution": {"workloads": {"enabled": True}}},
    "workloads of the demo": {"source": {"kind": "demo"}, "attribution": {"workloads": {"enabled": True}}},
    "no workloads": {"attribution": {"workloads": {"enabled": False}}},
    "all nodes": {"gpuNodes": {"only": False}, "tolerations": [{"operator": "Exists"}]},
    "spread fleet": {
        "mode": "fleet",
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    },
    "own affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            }
        },
        "nodeSelector": {"pool": "gpu"},
    },
    "manual updates": {"updateStrategy": {"type": "OnDelete"}},
    "one at a time": {"updateStrategy": {"maxUnavailable": 1}},
    "digest": {"image": {"repository": "r.example/pulsed", "digest": f"sha256:{'0' * 64}"}},
    "readiness by data": {"probes": {"readinessPath": "/-/ready"}},
    "everything that is extra": {
        "nameOverride": "gpus",
        "imagePullSecrets": [{"name": "pull"}],
        "commonLabels": {"team": "hpc"},
        "commonAnnotations": {"a": "1"},
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "podLabels": {"b": "2"},
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/ssl/own.pem"}],
        "extraVolumes": [{"name": "password", "secret": {"secretName": "exporter"}}],
        "extraVolumeMounts": [{"name": "password", "mountPath": "/run/password", "readOnly": True}],
        "priorityClassName": "system-node-critical",
        "runtimeClassName": "nvidia",
        "service": {"annotations": {"c": "3"}},
        "serviceAccount": {"annotations": {"d": "4"}},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "x"}, "spec": {"limits": []}},
            'apiVersion: v1\nkind: Service\nmetadata: {name: "{{ .Release.Name }}-2"}\nspec: {clusterIP: None}',
        ],
    },
    "own configuration": {
        "port": 19401,
        "config": {
            "telemetry_path": "/gpu",
            "source": {
                "interval": "5s",
                "exporter": {"timeout": "2s", "username": "me", "password_file": "/run/password/it"},
            },
            "compute": {"real_utilization": {"preset": "hpc"}},
            "publish": {"passthrough": True},
        },
        **MONITORS["ServiceMonitor"],
    },
}

GOLDEN: dict[str, Values] = {
    "default": {},
    "host": {**SOURCES["exporter on the node"], **WEB["TLS"], **SINGLE["whole ServiceMonitor"]},
    "service": {**SOURCES["exporter by a Service"], **WEB["users"], **SINGLE["whole PodMonitor"]},
    "dcgmi": {**SINGLE["conditions and the host engine"], **WEB["client certificates"]},
    "driver": SINGLE["processes of the node"],
    "demo": SOURCES["demo"],
    "fleet": {**SINGLE["fleet with volumes"], **MONITORS["ServiceMonitor"]},
    "node": {
        **SINGLE["kernel log in a file"],
        **SINGLE["files of the host"],
        **SINGLE["pods from the kubelet"],
        **SINGLE["Service of the node"],
    },
    "extra": {**SINGLE["everything that is extra"], **SINGLE["workloads of pods"]},
}
"""A rendering of each kind of values."""

CASES = {**{f"golden {name}": values for name, values in GOLDEN.items()}, **SINGLE}


REFUSED: dict[str, tuple[Values, str]] = {
    "fleet of the driver": ({**FLEET, "source": {"kind": "nvml"}}, "mode: fleet reads exporters of other nodes"),
    "fleet with a kernel log": ({**FLEET, "kernelLog": {"enabled": True}}, "are for a pod on every node"),
    "conditions of simulated GPUs": (
        {"source": {"kind": "demo"}, "nodeConditions": {"enabled": True}},
        "nodeConditions needs real GPUs",
    ),
    "fleet with files of the host": ({**FLEET, "hostFiles": {"enabled": True}}, "are for a pod on every node"),
    "fleet with conditions": ({**FLEET, "nodeConditions": {"enabled": True}}, "are for a pod on every node"),
    "kernel log in no folder": ({"kernelLog": {"enabled": True, "path": "kern.log"}}, "kernelLog/path"),
    "kernel log for the group root": ({"kernelLog": {"enabled": True, "group": 0}}, "kernelLog/group"),
    "kubelet in no folder": ({"attribution": {"kubelet": {"path": "kubelet.sock"}}}, "attribution/kubelet/path"),
    "misspelt key in config": ({"config": {"source": {"intervall": "1s"}}}, "intervall"),
    "duration without a unit that is one": ({"config": {"source": {"interval": "1 second"}}}, "config/source/interval"),
    "ratio above 1": ({"config": {"compute": {"real_utilization": {"min_coverage": 50}}}}, "min_coverage"),
    "word that a key does not have": ({"config": {"log": {"level": "verbose"}}}, "config/log/level"),
    "unknown value": ({"tolerance": []}, "tolerance"),
    "unknown source": ({"source": {"kind": "ganglia"}}, "source/kind"),
    "unknown key of the source": ({"source": {"exporter": {"url": "http://a"}}}, "url"),
    "targets that are no URLs": ({"source": {"exporter": {"targets": ["gpu1:9400"]}}}, "targets/0"),
    "port as text": ({"port": "9401"}, "port"),
    "privileged port": ({"port": 80}, "port"),
    "port out of range": ({"source": {"exporter": {"port": 70000}}}, "port"),
    "port of the former default": (
        {"source": {"exporter": {"port": 9401}}},
        "set source.exporter.via to hostIP, the former default, or",
    ),
    "workloads in config": ({"config": {"attribution": {"workloads": {}}}}, "config/attribution"),
    "kind without a group": ({"attribution": {"workloads": {"kinds": ["RayJob"]}}}, "kinds/0"),
    "discovery in config": ({"config": {"source": {"exporter": {"discovery": "static"}}}}, "config/source/exporter"),
    "no selector": ({"source": {"exporter": {"pod": {"selectors": []}}}}, "selectors"),
    "former namespace of pods": (
        {"source": {"exporter": {"pod": {"namespace": "gpu-operator"}}}},
        "has become source.exporter.pod.namespaces: write `namespaces: [NAME]`",
    ),
    "former empty namespace of pods": ({"source": {"exporter": {"pod": {"namespace": ""}}}}, "or `[all]`"),
    "namespace that is none": ({"source": {"exporter": {"pod": {"namespaces": ["../x"]}}}}, "pod/namespaces/0"),
    "all namespaces and one": ({"source": {"exporter": {"pod": {"namespaces": ["all", "ml"]}}}}, "pod/namespaces"),
    "controller without a group": ({"source": {"exporter": {"pod": {"controllers": ["Pod"]}}}}, "pod/controllers/0"),
    "port of pods": ({"source": {"exporter": {"pod": {"port": "9400"}}}}, "pod/port"),
    "path without slash": ({"source": {"exporter": {"path": "metrics"}}}, "path"),
    "scheme": ({"source": {"exporter": {"scheme": "ftp"}}}, "scheme"),
    "listen in config": ({"config": {"listen": ":1"}}, "config"),
    "node in config": ({"config": {"node": "a"}}, "config"),
    "kind in config": ({"config": {"source": {"kind": "demo"}}}, "config/source"),
    "targets in config": ({"config": {"source": {"exporter": {"targets": "http://a"}}}}, "config/source/exporter"),
    "web configuration in config": ({"config": {"web": {"config_file": "/a"}}}, "config/web"),
    "host in config": ({"config": {"source": {"dcgmi": {"host": "a"}}}}, "config/source/dcgmi"),
    "readiness": ({"probes": {"readinessPath": "/metrics"}}, "readinessPath"),
    "no pod may be away": ({"updateStrategy": {"maxUnavailable": 0}}, "maxUnavailable"),
    "zero percent": ({"updateStrategy": {"maxUnavailable": "0%"}}, "maxUnavailable"),
    "pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "digest": ({"image": {"digest": "0000"}}, "digest"),
    "label of the chart": ({"podLabels": {"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name"),
    "label too long": ({"commonLabels": {"a": "x" * 64}}, "commonLabels"),
    "interval without unit": ({"monitor": {"interval": "15"}}, "interval"),
    "unknown monitor": ({"monitor": {"kind": "Monitor"}}, "monitor/kind"),
    "version without a group": ({"monitor": {"apiVersion": "v1"}}, "monitor/apiVersion"),
    "port of the API server as text": ({"networkPolicy": {"apiServerPorts": ["https"]}}, "apiServerPorts/0"),
    "switch as text": ({"prometheusRule": {"enabled": "yes"}}, "enabled"),
    "effect": ({"tolerations": [{"key": "a", "effect": "Never"}]}, "effect"),
    "Secret's name": ({"webConfig": {"existingSecret": "Web_Config"}}, "existingSecret"),
    "URL without a scheme": ({"config": {"publish": {"otlp": {"url": "collector:4318"}}}}, "config/publish/otlp/url"),
    "conditions without the right": (
        {"config": {"kubernetes": {"conditions": {"enabled": True}}}},
        "set nodeConditions.enabled instead",
    ),
    "host's files without the mount": ({"config": {"host": {"root": "/host"}}}, "set hostFiles.enabled instead"),
    "kernel log without the mount": (
        {"config": {"health": {"kernel_log": "/var/log/kern.log"}}},
        "set kernelLog.enabled and kernelLog.path instead",
    ),
    "state on the read-only file system": (
        {"config": {"state_dir": "/var/lib/pulsed"}},
        "mount a volume there with extraVolumes",
    ),
    "credentials for all namespaces": (
        {
            "source": {"exporter": {"pod": {"namespaces": ["all"]}}},
            "config": {"source": {"exporter": {"bearer_token_file": "/token"}}},
        },
        "would send config.source.exporter.bearer_token_file to any pod",
    ),
    "monitor without a client certificate": (
        {**WEB["client certificates"], **MONITORS["PodMonitor"]},
        "needs a tlsConfig with cert and keySecret",
    ),
    "monitor without Service": (
        {**MONITORS["ServiceMonitor"], "service": {"enabled": False}},
        "needs service.enabled",
    ),
}
