/* A stand-in for NVIDIA's libnvidia-ml.so.1, of our own making: every call answers from a scenario file.
 *
 * Lines are "KEY VALUE". A value of a GPU is "gpu0.KEY", of its first MIG device "gpu0.mig0.KEY"; a key that is not there
 * is NVML_ERROR_NOT_SUPPORTED. A number may be followed by "+RATE": units per second since the library was loaded.
 * "FUNCTION.error CODE", "gpu0.FUNCTION.error CODE", "all.error CODE" (not of nvmlShutdown) fail. "FUNCTION.delay_us N" sleeps
 * so long first. The file is read again when it was replaced.
 * Handles carry the generation of the driver: one that outlives a reload, and every other misuse that a real driver
 * answers with a crash, is counted in `standin_misuses`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMED_OUT = 10, OTHER_VERSION = 25, UNKNOWN = 999 };
#define KEYS 8192

int standin_initialized, standin_samples, standin_sets, standin_misuses, standin_calls;

static struct entry { char *key, *value; double base, per_second; } table[KEYS]; /* a number is BASE or BASE+PER_SECOND */
static char *text;
static struct stat last;
static long generation;
static double begun;
static unsigned long events_sent;
static int edition; /* of the scenario: counts how often it was loaded */
static int owners_fail; /* whether the scenario has an error of one GPU */
static int oddities; /* whether it has fields without an answer */

static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static unsigned slot(const char *key) {
  unsigned h = 5381;
  for (const char *c = key; *c; c++) h = h * 33 + (unsigned char)*c;
  for (h %= KEYS; table[h].key && strcmp(table[h].key, key); h = (h + 1) % KEYS) {}
  return h;
}

static void load(void) {
  static double looked;
  double since = clock_now() - looked;
  if (text && since < 20e-6) return; /* no scenario is replaced in so short a time, and a look costs more than most calls */
  const char *path = getenv("STANDIN_NVML_SCENARIO");
  struct stat now;
  looked += since;
  if (!path || stat(path, &now) ||
      (text && now.st_ino == last.st_ino && now.st_mtim.tv_nsec == last.st_mtim.tv_nsec)) return;
  FILE *f = fopen(path, "r");
  if (!f) return;
  char *fresh = calloc(1, now.st_size + 1);
  if (fread(fresh, 1, now.st_size, f) != (size_t)now.st_size) abort();
  fclose(f);
  free(text);
  text = fresh, last = now;
  if (!begun) begun = clock_now();
  memset(table, 0, sizeof table);
  edition++, owners_fail = oddities = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char *space = strchr(line, ' ');
    if (!space) continue;
    *space = 0;
    unsigned at = slot(line);
    char *rest;
    table[at] = (struct entry){line, space + 1, strtod(space + 1, &rest), 0};
    if (*rest == '+') table[at].per_second = strtod(rest + 1, NULL);
    if (!strncmp(line, "gpu", 3) && strstr(line, "error")) owners_fail = 1;
    if (strstr(line, ".untouched")) oddities = 1;
  }
  const char *value = table[slot("driver.generation")].value;
  long wanted = value ? atol(value) : 0;
  if (wanted != generation) generation = wanted, standin_initialized = 0;
}

/* OWNER is "" or one of `owner_of`, FORMAT a constant: both are compared by address. What is found is remembered, so
 * that a call takes little more than its delay. */
static struct entry *entry_of(const char *owner, const char *format, unsigned n) {
  static struct { const char *owner, *format; unsigned n; int edition; struct entry *entry; } seen[KEYS];
  size_t at = ((size_t)owner * 31 + (size_t)format * 7 + n * 61) % KEYS;
  if (seen[at].owner != owner || seen[at].format != format || seen[at].n != n || seen[at].edition != edition) {
    char key[100], name[200];
    snprintf(key, sizeof key, format, n);
    snprintf(name, sizeof name, "%s%s%s", owner, *owner ? "." : "", key);
    seen[at].owner = owner, seen[at].format = format, seen[at].n = n, seen[at].edition = edition;
    seen[at].entry = &table[slot(name)];
  }
  return seen[at].entry;
}

static const char *string(const char *owner, const char *key) { return entry_of(owner, key, 0)->value; }

static int number_of(const char *owner, const char *format, unsigned n, double *v) {
  struct entry *found = entry_of(owner, format, n);
  if (!found->value) return NOT_SUPPORTED;
  *v = found->base;
  if (found->per_second) *v += found->per_second * (clock_now() - begun);
  return 0;
}

static double get_of(const char *owner, const char *format, unsigned n, double otherwise) {
  double v = otherwise;
  number_of(owner, format, n, &v);
  return v;
}

static int number(const char *owner, const char *key, double *v) { return number_of(owner, key, 0, v); }
static double get(const char *owner, const char *key, double otherwise) { return get_of(owner, key, 0, otherwise); }

/* The number of a function, which is not remembered: see `struct call`. */
static double get_for(const char *owner, const char *function, const char *what) {
  char name[200];
  snprintf(name, sizeof name, "%s%s%s.%s", owner, *owner ? "." : "", function, what);
  return table[slot(name)].value ? table[slot(name)].base : 0;
}

/* Handle: 1 + GPU + 256 * (MIG device + 1) + 65536 * generation. */
static void *handle_of(unsigned gpu, unsigned mig) { return (void *)(1 + gpu + 256ul * mig + 65536ul * generation); }

static void misused(void *h) {
  if ((long)((unsigned long)h >> 16) != generation && standin_initialized > 0) standin_misuses++;
}

/* The name of what a handle is of, always at the same address; of a GPU instance if INSTANCE is not negative. */
static const char *owner_named(void *h, int instance) {
  static char *names[4096], *instances[64][16];
  unsigned gpu = ((unsigned long)h & 255) - 1, mig = (unsigned long)h >> 8 & 255;
  char **name = instance < 0 ? &names[gpu % 64 * 64 + mig % 64] : &instances[gpu % 64][instance % 16];
  if (*name) return *name;
  *name = malloc(40);
  if (instance >= 0) snprintf(*name, 40, "gpu%u.instance%d", gpu, instance);
  else if (mig) snprintf(*name, 40, "gpu%u.mig%u", gpu, mig - 1);
  else snprintf(*name, 40, "gpu%u", gpu);
  return *name;
}

static const char *owner_of(void *h) {
  if (!h) return "";
  misused(h);
  return owner_named(h, -1);
}

/* What the scenario has for a function, looked up once: a driver has no scenario, and its calls are timed. */
struct call { int edition; double delay, all, error; };

static int failed(struct call *call, const char *function, void *h) {
  load();
  standin_calls++;
  if (call->edition != edition) {
    call->edition = edition;
    call->delay = get_for("", function, "delay_us");
    call->error = get_for("", function, "error");
    call->all = strcmp(function, "nvmlShutdown") ? get("all", "error", 0) : 0;
  }
  if (call->delay > 0) usleep(call->delay);
  int of_owner = h && owners_fail;
  const char *owner = owner_of(of_owner ? h : NULL);
  if (h && !of_owner) misused(h);
  double error = call->all;
  if (!error && of_owner) error = get(owner, "error", 0);
  if (!error) error = call->error;
  if (!error && of_owner) error = get_for(owner, function, "error");
  if (error) return (int)error;
  return standin_initialized > 0 || !strcmp(function, "nvmlInitWithFlags") ? 0 : UNINITIALIZED;
}

#define ENTER(h) \
  static struct call call_; \
  do { int e_ = failed(&call_, __func__, h); if (e_) return e_; } while (0)
#define UINT_OF(h, key, n, out) do { double v_; int e_ = number_of(owner_of(h), key, n, &v_); if (e_) return e_; *(out) = v_; } while (0)
#define UINT(h, key, out) UINT_OF(h, key, 0, out)
/* A function of a handle that gives one number. */
#define GIVES(name, key, type) int name(void *h, type *out) { ENTER(h); UINT(h, key, out); return 0; }
/* The same with a choice in front. */
#define GIVES_OF(name, key, type) int name(void *h, unsigned which, type *out) { ENTER(h); UINT_OF(h, key ".%u", which, out); return 0; }

static int put(const char *value, char *out, unsigned size) {
  if (!value) return NOT_SUPPORTED;
  snprintf(out, size, "%s", value);
  return 0;
}

int nvmlInitWithFlags(unsigned flags) {
  ENTER(NULL);
  standin_initialized += 1 + 0 * flags;
  return 0;
}
int nvmlShutdown(void) {
  ENTER(NULL);
  if (standin_samples || standin_sets) standin_misuses++;
  standin_initialized--;
  return 0;
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(NULL); return put(string("", "driver.version"), out, size); }
int nvmlDeviceGetCount_v2(unsigned *n) { ENTER(NULL); *n = get("", "count", 0); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  ENTER(handle_of(i, 0));
  *h = handle_of(i, 0);
  return i < get("", "count", 0) ? 0 : INVALID;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **h) {
  ENTER(NULL);
  for (unsigned i = 0; i < get("", "count", 0); i++) {
    const char *each = string(owner_of(*h = handle_of(i, 0)), "uuid");
    if (each && !strcmp(each, uuid)) return 0;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetUUID(void *h, char *out, unsigned size) { ENTER(h); return put(string(owner_of(h), "uuid"), out, size); }
int nvmlDeviceGetName(void *h, char *out, unsigned size) { ENTER(h); return put(string(owner_of(h), "name"), out, size); }
int nvmlDeviceGetPciInfo_v3(void *h, char *out) { ENTER(h); return put(string(owner_of(h), "pci"), out + 36, 32); }
GIVES(nvmlDeviceGetMinorNumber, "minor", unsigned)

int nvmlDeviceGetMemoryInfo(void *h, uint64_t *m) { /* total free used, which contains what is reserved */
  double reserved = get(owner_of(h), "memory.reserved", 0);
  ENTER(h);
  UINT(h, "memory.total", m);
  UINT(h, "memory.used", m + 2);
  m[2] += reserved;
  m[1] = m[0] - m[2];
  return 0;
}
GIVES_OF(nvmlDeviceGetClockInfo, "clock", unsigned)
GIVES_OF(nvmlDeviceGetMaxClockInfo, "clock.max", unsigned)
GIVES_OF(nvmlDeviceGetApplicationsClock, "clock.application", unsigned)
GIVES_OF(nvmlDeviceGetTemperature, "temperature", unsigned)
GIVES_OF(nvmlDeviceGetTemperatureThreshold, "threshold", unsigned)
GIVES(nvmlDeviceGetCurrentClocksThrottleReasons, "reasons", uint64_t)
GIVES(nvmlDeviceGetPowerUsage, "power", unsigned)
GIVES(nvmlDeviceGetEnforcedPowerLimit, "power.limit", unsigned)
GIVES(nvmlDeviceGetPowerManagementLimit, "power.limit", unsigned)
GIVES(nvmlDeviceGetPowerManagementDefaultLimit, "fi.189", unsigned)
int nvmlDeviceGetPowerManagementLimitConstraints(void *h, unsigned *lowest, unsigned *highest) {
  ENTER(h);
  UINT(h, "fi.187", lowest);
  UINT(h, "fi.188", highest);
  return 0;
}
/* The limits that were set are lines "UUID MILLIWATTS" of the file "SCENARIO.limits". */
int nvmlDeviceSetPowerManagementLimit(void *h, unsigned milliwatts) {
  char path[4096];
  ENTER(h);
  const char *owner = owner_of(h);
  if (milliwatts < get(owner, "fi.187", 0) || milliwatts > get(owner, "fi.188", 0)) return INVALID;
  snprintf(path, sizeof path, "%s.limits", getenv("STANDIN_NVML_SCENARIO"));
  FILE *f = fopen(path, "a");
  if (!f) return UNKNOWN;
  fprintf(f, "%s %u\n", string(owner, "uuid"), milliwatts);
  fclose(f);
  return 0;
}
GIVES(nvmlDeviceGetTotalEnergyConsumption, "energy", uint64_t)
GIVES(nvmlDeviceGetPerformanceState, "pstate", unsigned)
GIVES(nvmlDeviceGetFanSpeed, "fan", unsigned)
GIVES(nvmlDeviceGetPersistenceMode, "persistence", unsigned)
GIVES(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation", unsigned)
GIVES(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width", unsigned)
GIVES(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation.max", unsigned)
GIVES(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.max", unsigned)
int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) {
  ENTER(h);
  UINT(h, "utilization.gpu", u);
  UINT(h, "utilization.memory", u + 1);
  return 0;
}
int nvmlDeviceGetEncoderUtilization(void *h, unsigned *u, unsigned *us) { ENTER(h); UINT(h, "encoder", u); *us = 166667; return 0; }
int nvmlDeviceGetDecoderUtilization(void *h, unsigned *u, unsigned *us) { ENTER(h); UINT(h, "decoder", u); *us = 166667; return 0; }
int nvmlDeviceGetBAR1MemoryInfo(void *h, uint64_t *m) {
  ENTER(h);
  UINT(h, "bar1.total", m);
  UINT(h, "bar1.used", m + 2);
  m[1] = m[0] - m[2];
  return 0;
}
int nvmlDeviceValidateInforom(void *h) { double v; ENTER(h); return number(owner_of(h), "inforom", &v); }
int nvmlDeviceGetRowRemapperHistogram(void *h, unsigned *banks) {
  static const char *const keys[] = {"banks.max", "banks.high", "banks.partial", "banks.low", "banks.none"};
  ENTER(h);
  for (int i = 0; i < 5; i++) UINT(h, keys[i], banks + i);
  return 0;
}
int nvmlDeviceGetMemoryErrorCounter(void *h, unsigned type, unsigned counter, unsigned where, uint64_t *out) {
  static const char *const keys[] = {"errors.0.0.%u", "errors.0.1.%u", "errors.1.0.%u", "errors.1.1.%u"};
  ENTER(h);
  UINT_OF(h, keys[type * 2 + counter], where, out);
  return 0;
}

/* Field values: {id, scope, timestamp, latency, type, return, value}. */
struct field { unsigned id, scope; int64_t timestamp, latency; unsigned type; int error; union { double d; uint64_t u; } value; };
int nvmlDeviceGetFieldValues(void *h, int n, struct field *f) {
  ENTER(h);
  for (; n--; f++) {
    const char *owner = owner_of(h);
    double v, error;
    if (oddities && get_of(owner, "fi.%u.untouched", f->id, 0)) continue;
    int of_link = (f->id > 160 && f->id < 166) || ((f->id == 208 || f->id == 213 || f->id == 214) && f->scope != ~0u);
    f->timestamp = 1;
    if (of_link) f->error = number_of(owner, "link.%u", f->scope * 1000 + f->id, &v); /* "link.14165": field 165 of link 14 */
    else f->error = number_of(owner, "fi.%u", f->id, &v);
    f->type = get_of(owner, "fi.%u.type", f->id, 3);
    if (owners_fail && (error = get_of(owner, "fi.%u.error", f->id, 0))) f->error = error;
    if (f->error) continue;
    f->value.u = (uint64_t)v;
  }
  return 0;
}

int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) { ENTER(h); UINT(h, "mig.mode", current); *pending = *current; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { ENTER(h); UINT(h, "mig.most", n); return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **mig) {
  ENTER(h);
  *mig = handle_of(((unsigned long)h & 255) - 1, i + 1);
  return string(owner_of(*mig), "uuid") ? 0 : NOT_FOUND;
}
GIVES(nvmlDeviceGetGpuInstanceId, "instance", unsigned)

/* Processes: "gpu0.processes PID:BYTES:INSTANCE PID::" (of compute; .graphics, .mps), "gpu0.processes.busy PID:PERCENT",
 * and in accounting mode "gpu0.accounting 1", "gpu0.accounting.PID PERCENT:BYTES". */
struct process { unsigned pid; uint64_t memory; unsigned instance, compute; };
static int list_processes(void *h, const char *key, unsigned *n, struct process *out) {
  const char *at = string(owner_of(h), key);
  unsigned room = *n, found = 0;
  if (!at) return NOT_SUPPORTED;
  for (; *at && strcmp(at, "none"); at += strcspn(at, " "), at += strspn(at, " ")) {
    char memory[30] = "", instance[30] = "";
    unsigned pid = 0;
    sscanf(at, "%u:%29[0-9]", &pid, memory);
    const char *rest = strchr(at, ':');
    if (rest && (rest = strchr(rest + 1, ':'))) sscanf(rest + 1, "%29[0-9]", instance);
    if (found++ < room)
      out[found - 1] = (struct process){pid, *memory ? strtoull(memory, NULL, 10) : UINT64_MAX, *instance ? atoi(instance) : -1, -1};
  }
  *n = found;
  return found > room ? TOO_SMALL : 0;
}
#define LISTS(name, key) int name(void *h, unsigned *n, struct process *out) { ENTER(h); return list_processes(h, key, n, out); }
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, "processes.graphics")
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, "processes.mps")
struct busy { unsigned pid; uint64_t time; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *h, struct busy *out, unsigned *n, uint64_t since) {
  ENTER(h);
  const char *at = string(owner_of(h), "processes.busy");
  unsigned room = *n, found = 0, used;
  struct busy each = {.time = since + 1};
  if (!at) return NOT_SUPPORTED;
  for (; sscanf(at, "%u:%u%n", &each.pid, &each.sm, &used) == 2; at += used)
    if (found++ < room) out[found - 1] = each;
  *n = found;
  return !found ? NOT_FOUND : found > room ? TOO_SMALL : 0;
}
GIVES(nvmlDeviceGetAccountingMode, "accounting", unsigned)
struct account { unsigned gpu, memory; uint64_t most, time, start; unsigned running, reserved[5]; };
int nvmlDeviceGetAccountingStats(void *h, unsigned pid, struct account *out) {
  unsigned long long most;
  ENTER(h);
  const char *value = entry_of(owner_of(h), "accounting.%u", pid)->value;
  if (!value || sscanf(value, "%u:%llu", &out->gpu, &most) != 2) return NOT_FOUND;
  out->most = most;
  return 0;
}

/* Events: "gpu0.xids 48 79" are sent once each; "events.serial N" with another N sends them again. */
int nvmlEventSetCreate(int **set) { ENTER(NULL); *set = calloc(1, 64 * sizeof(int)); standin_sets++; return 0; }
int nvmlEventSetFree(int *set) { standin_sets--; free(set); return 0; }
int nvmlDeviceRegisterEvents(void *h, uint64_t types, int *set) {
  ENTER(h);
  set[((unsigned long)h & 255) - 1] = types & 8 ? 1 : 0;
  return get(owner_of(h), "events", 1) ? 0 : NOT_SUPPORTED;
}
struct event { void *device; uint64_t type, data; unsigned instance, compute; };
int nvmlEventSetWait_v2(int *set, struct event *out, unsigned ms) {
  static char sent[64][200];
  ENTER(NULL);
  for (unsigned gpu = 0; gpu < get("", "count", 0); gpu++) {
    const char *xids = string(owner_named(handle_of(gpu, 0), -1), "xids");
    if (!set[gpu] || !xids) continue;
    size_t done = strlen(sent[gpu]);
    if (strncmp(sent[gpu], xids, done)) done = 0, sent[gpu][0] = 0;
    if (!xids[done]) continue;
    char *rest;
    out->device = handle_of(gpu, 0), out->type = 8, out->data = strtoul(xids + done, &rest, 10);
    out->instance = out->compute = 0xFFFFFFFF;
    snprintf(sent[gpu], sizeof sent[gpu], "%.*s", (int)(rest - xids), xids);
    events_sent++;
    return 0;
  }
  (void)ms;
  return TIMED_OUT;
}

#ifndef OLD_DRIVER /* what drivers before 510 do not have */
#define VERSION(s, n) do { if ((s)->version != (sizeof *(s) | (n) << 24)) return OTHER_VERSION; } while (0)
struct memory { unsigned version; uint64_t total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *h, struct memory *m) {
  ENTER(h);
  VERSION(m, 2);
  UINT(h, "memory.total", &m->total);
  UINT(h, "memory.reserved", &m->reserved);
  UINT(h, "memory.used", &m->used);
  m->free = m->total - m->reserved - m->used;
  return 0;
}
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, "processes.graphics")
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, "processes.mps")
GIVES(nvmlDeviceGetCurrentClocksEventReasons, "reasons", uint64_t)
struct temperature { unsigned version, sensor; int celsius; };
int nvmlDeviceGetTemperatureV(void *h, struct temperature *t) { ENTER(h); VERSION(t, 1); UINT(h, "temperature.0", &t->celsius); return 0; }
struct margin { unsigned version; int celsius; };
int nvmlDeviceGetMarginTemperature(void *h, struct margin *t) { ENTER(h); VERSION(t, 1); UINT(h, "margin", &t->celsius); return 0; }
struct unrepairable { unsigned version, flag; };
int nvmlDeviceGetUnrepairableMemoryFlag_v1(void *h, struct unrepairable *s) {
  ENTER(h);
  VERSION(s, 1);
  UINT(h, "unrepairable", &s->flag);
  return 0;
}
struct sram { unsigned version; uint64_t counts[11]; unsigned exceeded; };
int nvmlDeviceGetSramEccErrorStatus(void *h, struct sram *s) {
  ENTER(h);
  VERSION(s, 1);
  UINT(h, "sram.exceeded", &s->exceeded);
  return 0;
}
struct fabric { unsigned version; unsigned char uuid[16]; int status; unsigned clique; unsigned char state; unsigned mask; unsigned char summary; };
int nvmlDeviceGetGpuFabricInfoV(void *h, struct fabric *f) {
  ENTER(h);
  UINT(h, "fabric.state", &f->state);
  UINT(h, "fabric.status", &f->status);
  UINT(h, "fabric.mask", &f->mask);
  f->uuid[15] = get(owner_of(h), "fabric.cluster", 0);
  f->clique = get(owner_of(h), "fabric.clique", 0);
  if (f->version >> 24 > 2) UINT(h, "fabric.summary", &f->summary);
  return 0;
}

struct platform { unsigned version; char guid[16], serial[16]; unsigned char slot, tray, host, peer, module; };
int nvmlDeviceGetPlatformInfo(void *h, struct platform *p) {
  ENTER(h);
  const char *owner = owner_of(h), *serial = string(owner, "platform.serial");
  if (!serial) return NOT_SUPPORTED;
  strncpy(p->serial, serial, sizeof p->serial - 1);
  p->slot = get(owner, "platform.slot", 0), p->tray = get(owner, "platform.tray", 0);
  p->host = get(owner, "platform.host", 0), p->module = get(owner, "platform.module", 0);
  return 0;
}

/* GPM: a sample is what it is of, and its place in time; a pair in the wrong order is a misuse. */
struct sample { long generation; unsigned long serial; const char *owner; };
struct metric { unsigned id; int error; double value; const char *texts[3]; };
struct request { unsigned version, count; struct sample *older, *newer; struct metric metrics[]; };
static unsigned long samples_taken;
int nvmlGpmQueryDeviceSupport(void *h, unsigned *s) { ENTER(h); UINT(h, "gpm", s + 1); return 0; }
int nvmlGpmSampleAlloc(struct sample **s) {
  ENTER(NULL);
  *s = calloc(1, sizeof **s);
  (*s)->generation = generation;
  standin_samples++;
  return 0;
}
int nvmlGpmSampleFree(struct sample *s) { standin_samples--; free(s); return 0; }
static int take(const char *owner, struct sample *s) {
  if (s->generation != generation) standin_misuses++;
  s->serial = ++samples_taken;
  s->owner = owner;
  return 0;
}
int nvmlGpmSampleGet(void *h, struct sample *s) { ENTER(h); return take(owner_of(h), s); }
int nvmlGpmMigSampleGet(void *h, unsigned instance, struct sample *s) {
  ENTER(h);
  misused(h);
  return take(owner_named(h, instance), s);
}
int nvmlGpmMetricsGet(struct request *r) {
  ENTER(NULL);
  if (r->version != 1 || r->older->generation != generation || r->newer->generation != generation ||
      r->older->serial >= r->newer->serial || !r->older->serial || r->older->owner != r->newer->owner) {
    standin_misuses++;
    return INVALID;
  }
  for (unsigned i = 0; i < r->count; i++) {
    struct metric *each = &r->metrics[i];
    double error = owners_fail ? get_of(r->newer->owner, "gpm.%u.error", each->id, 0) : 0;
    each->error = number_of(r->newer->owner, "gpm.%u", each->id, &each->value);
    if (error) each->error = error;
  }
  return 0;
}
#endif
