/* An NVML for tests: the C functions that pynvml calls for the agent, driven by lines of text.
 *
 *   count 2                                     number of GPUs
 *   driver 570.86.10
 *   gpu0.uuid GPU-0000                          every reading is one line; a reading without a line answers NOT_SUPPORTED
 *   error.nvmlInitWithFlags 9                   a function answers with that code, for every GPU
 *   gpu1.error.nvmlDeviceGetPowerUsage 15       ... or for one
 *   hang.nvmlDeviceGetUtilizationRates 1        a function does not return while the line is there
 *
 * The text comes from fake_nvml_load(), or at nvmlInitWithFlags from the file that FAKE_NVML names.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMED_OUT = 10 };
enum { MAX_LINES = 2048, MAX_GPUS = 16, MAX_MIG = 8, MAX_EVENTS = 64 };

typedef struct { char key[96]; char value[128]; } line_t;
typedef struct { int gpu; int mig; } device_t;
typedef struct { device_t *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; } event_t;
typedef struct { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { unsigned int id, scope; long long timestamp, latency; unsigned int type; int result; unsigned long long value; } field_t;

static line_t lines[MAX_LINES];
static int line_count, opened;
static device_t devices[MAX_GPUS], mig_devices[MAX_GPUS][MAX_MIG];
static event_t queue[MAX_EVENTS];
static int queued;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_nvml_load(const char *text) {
    pthread_mutex_lock(&lock);
    line_count = 0;
    while (*text && line_count < MAX_LINES) {
        int used = 0;
        if (sscanf(text, "%95s %127[^\n]%n", lines[line_count].key, lines[line_count].value, &used) == 2) line_count++;
        text += used;
        while (*text && *text != '\n') text++;
        while (*text == '\n') text++;
    }
    pthread_mutex_unlock(&lock);
}

int fake_nvml_is_open(void) { return opened; }

static const char *get(const char *key, char *into) {
    const char *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].key, key)) found = strcpy(into, lines[i].value);
    pthread_mutex_unlock(&lock);
    return found;
}

static int number(const char *key, unsigned long long *into) {
    char text[128];
    if (!get(key, text)) return NOT_SUPPORTED;
    *into = strtoull(text, NULL, 0);
    return OK;
}

static const char *of(const device_t *d, const char *name, char *into) {
    if (d->mig >= 0) snprintf(into, 160, "gpu%d.mig%d.%s", d->gpu, d->mig, name);
    else snprintf(into, 160, "gpu%d.%s", d->gpu, name);
    return into;
}

static int reading(const device_t *d, const char *name, unsigned long long *into) {
    char key[160];
    return number(of(d, name, key), into);
}

static int text(const device_t *d, const char *name, char *into, unsigned int size) {
    char key[160], value[128];
    if (!get(of(d, name, key), value)) return NOT_SUPPORTED;
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return OK;
}

/* The error that the text asks for; hangs where it says so. */
static int asked(const device_t *d, const char *function) {
    char key[160];
    unsigned long long code = 0;
    struct timespec moment = {0, 5000000};
    snprintf(key, sizeof key, "hang.%s", function);
    while (number(key, &code) == OK) nanosleep(&moment, NULL);
    snprintf(key, sizeof key, "error.%s", function);
    if (number(key, &code) == OK) return (int)code;
    if (d) {
        snprintf(key, sizeof key, "gpu%d.error.%s", d->gpu, function);
        if (number(key, &code) == OK) return (int)code;
    }
    return opened ? OK : UNINITIALIZED;
}

#define CHECK(device) do { int e_ = asked(device, __func__); if (e_) return e_; } while (0)
#define READ(device, name, type, into) do { \
    unsigned long long n_; CHECK(device); int r_ = reading(device, name, &n_); if (r_) return r_; *(into) = (type)n_; return OK; } while (0)

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    const char *path = getenv("FAKE_NVML");
    if (path) {
        static char content[1 << 17];
        FILE *file = fopen(path, "r");
        size_t size = file ? fread(content, 1, sizeof content - 1, file) : 0;
        content[size] = 0;
        if (file) fclose(file);
        fake_nvml_load(content);
    }
    opened = 1; /* so that only an error that is asked for comes back */
    int error = asked(NULL, __func__);
    opened = !error;
    return error;
}

int nvmlShutdown(void) { int error = asked(NULL, __func__); opened = 0; queued = 0; return error; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the library"; }

int nvmlSystemGetDriverVersion(char *into, unsigned int size) {
    char value[128];
    CHECK(NULL);
    if (!get("driver", value)) return NOT_SUPPORTED;
    snprintf(into, size, "%s", value);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    unsigned long long n;
    CHECK(NULL);
    int e = number("count", &n);
    if (!e) *count = (unsigned int)n;
    return e;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **device) {
    if (index >= MAX_GPUS) return INVALID_ARGUMENT;
    devices[index] = (device_t){(int)index, -1};
    CHECK(&devices[index]);
    *device = &devices[index];
    return OK;
}

int nvmlDeviceGetUUID(device_t *d, char *into, unsigned int size) { CHECK(d); return text(d, "uuid", into, size); }
int nvmlDeviceGetName(device_t *d, char *into, unsigned int size) { CHECK(d); return text(d, "name", into, size); }
int nvmlDeviceGetMinorNumber(device_t *d, unsigned int *into) { READ(d, "minor", unsigned int, into); }

int nvmlDeviceGetPciInfo_v3(device_t *d, pci_t *pci) {
    CHECK(d);
    memset(pci, 0, sizeof *pci);
    return text(d, "bus", pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetClockInfo(device_t *d, unsigned int kind, unsigned int *into) {
    READ(d, kind == 1 ? "clock.sm" : kind == 2 ? "clock.mem" : "clock.other", unsigned int, into);
}

typedef struct { unsigned int version, sensor; int celsius; } temperature_t;
int nvmlDeviceGetTemperatureV(device_t *d, temperature_t *t) { READ(d, "temperature", int, &t->celsius); }
int nvmlDeviceGetTemperature(device_t *d, unsigned int sensor, unsigned int *into) { (void)sensor; READ(d, "temperature", unsigned int, into); }
int nvmlDeviceGetPowerUsage(device_t *d, unsigned int *into) { READ(d, "power_mw", unsigned int, into); }
int nvmlDeviceGetTotalEnergyConsumption(device_t *d, unsigned long long *into) { READ(d, "energy_mj", unsigned long long, into); }
int nvmlDeviceGetPcieReplayCounter(device_t *d, unsigned int *into) { READ(d, "pcie.replay", unsigned int, into); }
int nvmlDeviceGetCurrentClocksEventReasons(device_t *d, unsigned long long *into) { READ(d, "reasons", unsigned long long, into); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t *d, unsigned long long *into) { READ(d, "reasons", unsigned long long, into); }
int nvmlDeviceGetPcieThroughput(device_t *d, unsigned int way, unsigned int *into) { READ(d, way ? "pcie.rx_kb" : "pcie.tx_kb", unsigned int, into); }

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory2_t;

static int memory(device_t *d, memory2_t *m) {
    int e = reading(d, "memory.total", &m->total);
    if (e || (e = reading(d, "memory.free", &m->free)) || (e = reading(d, "memory.used", &m->used))) return e;
    if (reading(d, "memory.reserved", &m->reserved)) m->reserved = 0;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(device_t *d, memory2_t *m) { CHECK(d); return memory(d, m); }

int nvmlDeviceGetMemoryInfo(device_t *d, memory_t *m) { /* the first version counts reserved memory as used */
    memory2_t all;
    CHECK(d);
    int e = memory(d, &all);
    if (!e) *m = (memory_t){all.total, all.free, all.used + all.reserved};
    return e;
}

typedef struct { unsigned int gpu, memory; } utilization_t;
int nvmlDeviceGetUtilizationRates(device_t *d, utilization_t *u) {
    unsigned long long gpu, mem;
    CHECK(d);
    int e = reading(d, "utilization.gpu", &gpu);
    if (e || (e = reading(d, "utilization.memory", &mem))) return e;
    *u = (utilization_t){(unsigned int)gpu, (unsigned int)mem};
    return OK;
}

int nvmlDeviceGetTotalEccErrors(device_t *d, unsigned int kind, unsigned int counter, unsigned long long *into) {
    char name[48];
    snprintf(name, sizeof name, "ecc.%s.%s", kind ? "dbe" : "sbe", counter ? "agg" : "vol");
    READ(d, name, unsigned long long, into);
}

int nvmlDeviceGetRemappedRows(device_t *d, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed) {
    unsigned long long c, u, p, f;
    CHECK(d);
    if (reading(d, "rows.corrected", &c) || reading(d, "rows.uncorrected", &u) || reading(d, "rows.pending", &p) || reading(d, "rows.failed", &f))
        return NOT_SUPPORTED;
    *corrected = (unsigned int)c, *uncorrected = (unsigned int)u, *pending = (unsigned int)p, *failed = (unsigned int)f;
    return OK;
}

int nvmlDeviceGetFieldValues(device_t *d, int count, field_t *fields) {
    char name[48];
    CHECK(d);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "field.%u", fields[i].id);
        fields[i].type = 3;
        fields[i].result = reading(d, name, &fields[i].value);
        snprintf(name, sizeof name, "field.%u.type", fields[i].id);
        unsigned long long type;
        if (!reading(d, name, &type)) fields[i].type = (unsigned int)type;
        snprintf(name, sizeof name, "field.%u.error", fields[i].id);
        unsigned long long error;
        if (!reading(d, name, &error)) fields[i].result = (int)error;
    }
    return OK;
}

int nvmlEventSetCreate(void **set) { CHECK(NULL); *set = queue; return OK; }
int nvmlEventSetFree(void *set) { (void)set; CHECK(NULL); return OK; }
int nvmlDeviceGetSupportedEventTypes(device_t *d, unsigned long long *into) { READ(d, "events", unsigned long long, into); }
int nvmlDeviceRegisterEvents(device_t *d, unsigned long long types, void *set) { (void)types, (void)set; CHECK(d); return OK; }

void fake_nvml_xid(unsigned int gpu, unsigned long long xid) {
    if (queued < MAX_EVENTS) queue[queued++] = (event_t){&devices[gpu], 8, xid, ~0u, ~0u};
}

int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int milliseconds) {
    (void)set, (void)milliseconds;
    CHECK(NULL);
    if (!queued) return TIMED_OUT;
    *event = queue[0];
    memmove(queue, queue + 1, sizeof *queue * (size_t)--queued);
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(device_t *a, device_t *b, unsigned int *level) {
    char name[32];
    snprintf(name, sizeof name, "common.%d", b->gpu);
    READ(a, name, unsigned int, level);
}

int nvmlDeviceGetP2PStatus(device_t *a, device_t *b, unsigned int capability, unsigned int *status) {
    char name[32];
    snprintf(name, sizeof name, "p2p%u.%d", capability, b->gpu);
    READ(a, name, unsigned int, status);
}

/* gpu0.link3 active | down; gpu0.link3.to switch | bus id */
static int link_line(device_t *d, unsigned int link, const char *suffix, char *into) {
    char name[48];
    snprintf(name, sizeof name, "link%u%s", link, suffix);
    return text(d, name, into, 128);
}

int nvmlDeviceGetNvLinkState(device_t *d, unsigned int link, unsigned int *active) {
    char value[128];
    CHECK(d);
    if (link_line(d, link, "", value)) return INVALID_ARGUMENT;
    *active = !strcmp(value, "active");
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(device_t *d, unsigned int link, unsigned int *kind) {
    char value[128];
    CHECK(d);
    int e = link_line(d, link, ".to", value);
    if (!e) *kind = !strcmp(value, "switch") ? 2 : !strcmp(value, "cpu") ? 1 : 0;
    return e;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t *d, unsigned int link, pci_t *pci) {
    char value[128];
    CHECK(d);
    memset(pci, 0, sizeof *pci);
    int e = link_line(d, link, ".to", value);
    if (!e) snprintf(pci->bus_id, sizeof pci->bus_id, "%.31s", value);
    return e;
}

int nvmlDeviceGetMigMode(device_t *d, unsigned int *current, unsigned int *pending) {
    unsigned long long n;
    CHECK(d);
    int e = reading(d, "mig", &n);
    if (!e) *current = *pending = (unsigned int)n;
    return e;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t *d, unsigned int *count) { CHECK(d); *count = MAX_MIG; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(device_t *d, unsigned int index, device_t **mig) {
    char value[128];
    CHECK(d);
    if (index >= MAX_MIG) return INVALID_ARGUMENT;
    mig_devices[d->gpu][index] = (device_t){d->gpu, (int)index};
    *mig = &mig_devices[d->gpu][index];
    return text(*mig, "instance", value, sizeof value) ? NOT_FOUND : OK;
}

int nvmlDeviceGetGpuInstanceId(device_t *d, unsigned int *into) { READ(d, "instance", unsigned int, into); }

typedef struct { unsigned int sms, copy, decoders, encoders, jpeg, ofa, slices, compute_slices; unsigned long long memory_mb; } attributes_t;
int nvmlDeviceGetAttributes_v2(device_t *d, attributes_t *a) {
    unsigned long long slices;
    CHECK(d);
    memset(a, 0, sizeof *a);
    int e = reading(d, "slices", &slices);
    a->slices = (unsigned int)slices;
    return e ? e : reading(d, "memory_mb", &a->memory_mb);
}
