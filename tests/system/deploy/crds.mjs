// Judges objects of the Prometheus operator and of KEDA: a JSON list on standard input, a JSON list of complaints on standard output.
//
// The validators of @kubernetes-models let unknown keys pass, and an API server would drop those in silence. But a
// validator asks every object for all keys that it knows: one that nobody asked for is unknown.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const folder = resolve(process.argv[2], "node_modules/@kubernetes-models");
const prefixes = {
  "monitoring.coreos.com/v1": "prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1",
  "keda.sh/v1alpha1": "keda/_schemas/ComGithubKedacoreKedaV2ApisKedaV1alpha1",
};

function watched(value, path, asked) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item, index) => watched(item, `${path}/${index}`, asked));
  const inner = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, watched(v, `${path}/${k}`, asked)]));
  return new Proxy(inner, {
    get(target, key) {
      if (typeof key === "string") asked.add(`${path}/${key}`);
      return target[key];
    },
  });
}

function* paths(value, path) {
  if (value === null || typeof value !== "object") return;
  for (const [key, inner] of Object.entries(value)) {
    if (!Array.isArray(value)) yield `${path}/${key}`;
    yield* paths(inner, `${path}/${key}`);
  }
}

const complaints = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const { validate } = await import(`${folder}/${prefixes[object.apiVersion]}${object.kind}.js`);
  const asked = new Set();
  if (!validate(watched(object, "", asked))) {
    complaints.push(...validate.errors.map((e) => `${object.kind}${e.instancePath}: ${e.keyword} ${JSON.stringify(e.params)}`));
  } else {
    complaints.push(...[...paths(object, "")].filter((path) => !asked.has(path)).map((path) => `${object.kind}${path}: unknown`));
  }
}
console.log(JSON.stringify(complaints));
