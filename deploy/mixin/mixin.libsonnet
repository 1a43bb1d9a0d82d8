// The rules and dashboards of pulsed as a mixin. The .json files and dashboards/ are those of `make mixin`.
{
  _config+:: {
    // Document with a heading per alert; a daemon serves it: 'https://EXTERNAL_URL/docs/health'.
    runbookUrl: 'docs/health.md',
    // Names of alerts and groups to leave out.
    exclude: [],
    // Labels of every alert.
    alertLabels: {},
    dashboardTags: ['pulsed', 'gpu'],
    dashboardRefresh: '30s',
    // Whether dashboards ask for their datasource when they are imported, as grafana.com requires.
    publishing: false,
  },

  local config = $._config,
  local isKept(name) = !std.member(config.exclude, name),

  local alert(rule) = rule {
    labels+: config.alertLabels,
    annotations+: {
      runbook_url: config.runbookUrl + '#' + std.split(rule.annotations.runbook_url, '#')[1],
    },
  },

  local changed(rules) = [
    if std.objectHas(rule, 'alert') then alert(rule) else rule
    for rule in rules
    if isKept(std.get(rule, 'alert', ''))
  ],

  local groups(file) = [
    group { rules: changed(group.rules) }
    for group in file.groups
    if isKept(group.name) && changed(group.rules) != []
  ],

  local published = {
    __inputs: [
      {
        name: 'DS_PROMETHEUS',
        label: 'Prometheus',
        description: 'The Prometheus that scrapes pulsed.',
        type: 'datasource',
        pluginId: 'prometheus',
        pluginName: 'Prometheus',
      },
    ],
    templating+: {
      list: [
        if variable.type == 'datasource'
        then variable { current: { text: '${DS_PROMETHEUS}', value: '${DS_PROMETHEUS}' } }
        else variable
        for variable in super.list
      ],
    },
  },

  local dashboard(document) = document {
    tags: config.dashboardTags,
    refresh: config.dashboardRefresh,
  } + if config.publishing then published else {},

  prometheusRules+:: { groups+: groups(import 'rules.json') },
  prometheusAlerts+:: { groups+: groups(import 'alerts.json') },
  grafanaDashboards+:: {
    'fleet.json': dashboard(import 'dashboards/fleet.json'),
    'gpu.json': dashboard(import 'dashboards/gpu.json'),
    'owners.json': dashboard(import 'dashboards/owners.json'),
  },
}
