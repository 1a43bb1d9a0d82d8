/* A stand-in for NVIDIA's libcuda.so.1 and libcublas.so, of our own making, with the calls that known kernels need. A launch
 * lasts as long as its parameter says and counts rounds as the kernel would. Calls out of order, dead handles and memory that
 * is not allocated are counted as misuses, beside the error that a driver returns.
 *
 * STANDIN_CUDA_ERROR="FUNCTION CODE" fails. STANDIN_CUDA_ROUND_NS is the time of a round, STANDIN_CUDA_COPY the bytes/s of a copy,
 * STANDIN_CUDA_FLOPS the FLOP/s of a GEMM; those that the host sends late are made up for, so that it depends on no other load.
 * STANDIN_CUDA_REPORT is a file with "HELD MISUSES LAUNCHES" when the process ends. With -DCUDA_H, cuda.h checks all types.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef CUDA_H
#include <cuda.h>
#else
typedef int CUresult, CUdevice, CUdevice_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct { char bytes[16]; } CUuuid;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
#endif

enum { INVALID = 1, NO_MEMORY = 2, UNINITIALIZED = 3, NO_DEVICE = 100, NO_CONTEXT = 201, BAD_PTX = 218, BAD_HANDLE = 400, NOT_FOUND = 500, BAD_ADDRESS = 700 };
enum { SLOTS = 64, PARAMETERS = 7 };

struct CUmod_st { char *text; };
struct CUfunc_st { CUmodule module; };
static struct { char *begin; size_t size; int on_host; } memory[SLOTS];
static struct CUmod_st modules[SLOTS];
static struct CUfunc_st functions[SLOTS];
static int initialized, contexts, handles, misuses, launches, function_count;
static __thread CUcontext current;
static struct timespec ends;

static double setting(const char *name, double otherwise) { return getenv(name) ? atof(getenv(name)) : otherwise; }

__attribute__((destructor)) static void report(void) {
  FILE *f = getenv("STANDIN_CUDA_REPORT") ? fopen(getenv("STANDIN_CUDA_REPORT"), "w") : NULL;
  int held = contexts + handles;
  for (int i = 0; i < SLOTS; i++) held += (memory[i].begin != NULL) + (modules[i].text != NULL);
  if (f) fprintf(f, "%d %d %d\n", held, misuses, launches), fclose(f);
}

static CUresult misuse(CUresult code) { misuses++; return code; }

static CUresult failed(const char *function, int needs_context) {
  char name[60];
  int code;
  const char *error = getenv("STANDIN_CUDA_ERROR");
  if (error && sscanf(error, "%59s %d", name, &code) == 2 && !strcmp(name, function)) return code;
  if (!initialized && strcmp(function, "cuInit")) return misuse(UNINITIALIZED);
  return needs_context && (!contexts || !current) ? misuse(NO_CONTEXT) : 0;
}
#define ENTER(needs_context) do { CUresult e_ = failed(__func__, needs_context); if (e_) return e_; } while (0)

static void extend(double seconds) {
  double end = ends.tv_sec + ends.tv_nsec * 1e-9 + seconds;
  ends.tv_sec = (time_t)end, ends.tv_nsec = (long)((end - ends.tv_sec) * 1e9);
}

static void wait_seconds(double seconds) {
  clock_gettime(CLOCK_MONOTONIC, &ends);
  extend(seconds);
}

/* The bytes from an address to the end of its allocation; 0 if there is none. */
static size_t room(uint64_t address, int on_host) {
  for (int i = 0; i < SLOTS; i++)
    if (memory[i].begin && memory[i].on_host == on_host && address - (uint64_t)memory[i].begin < memory[i].size)
      return memory[i].size - (address - (uint64_t)memory[i].begin);
  return 0;
}

static CUresult allocate(uint64_t *out, size_t size, int on_host) {
  int i = 0;
  while (i < SLOTS && memory[i].begin) i++;
  if (!size) return misuse(INVALID);
  if (i == SLOTS || !(memory[i].begin = calloc(1, size))) return NO_MEMORY;
  memory[i].size = size, memory[i].on_host = on_host;
  *out = (uint64_t)memory[i].begin;
  return 0;
}

static CUresult release(uint64_t address, int on_host) {
  for (int i = 0; i < SLOTS; i++)
    if (address && (uint64_t)memory[i].begin == address && memory[i].on_host == on_host) {
      free(memory[i].begin);
      memory[i].begin = NULL;
      return 0;
    }
  return misuse(INVALID);
}

CUresult cuInit(unsigned flags) { ENTER(0); initialized = 1; return flags ? misuse(INVALID) : 0; }
CUresult cuGetErrorString(CUresult code, const char **text) { *text = code == NO_DEVICE ? "no CUDA-capable device is detected" : "stand-in"; return 0; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { ENTER(0); *device = 7; return ordinal ? misuse(101) : 0; }
CUresult cuDeviceGetName(char *out, int size, CUdevice d) { ENTER(0); snprintf(out, size, "NVIDIA H100 80GB HBM3"); return d == 7 ? 0 : misuse(101); }
CUresult cuDeviceGetUuid_v2(CUuuid *out, CUdevice d) {
  ENTER(0);
  memcpy(out->bytes, "\x5e\x1f\0\0\0\0\x40\0\x80\0\0\0\0\0\0\0", 16);
  return d == 7 ? 0 : misuse(101);
}
CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice d) {
  ENTER(0);
  *out = which == 16 ? 132 : which == 37 ? 5120 : which == 39 ? 2048 : which == 75 ? 9 : 0;
  return d != 7 || (which != 76 && !*out) ? misuse(INVALID) : 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) { ENTER(0); contexts++; *out = (CUcontext)&contexts; return d == 7 ? 0 : misuse(101); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { ENTER(0); return contexts-- > 0 && d == 7 ? 0 : misuse(NO_CONTEXT); }
CUresult cuCtxSetCurrent(CUcontext context) { ENTER(0); current = context; return context == (CUcontext)&contexts ? 0 : misuse(NO_CONTEXT); }
CUresult cuCtxSynchronize(void) { ENTER(1); while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ends, NULL)) {} return 0; }

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  int i = 0;
  ENTER(1);
  while (i < SLOTS && modules[i].text) i++;
  if (i == SLOTS || strncmp(image, ".version", 8) || !strstr(image, ".target")) return misuse(BAD_PTX);
  modules[i].text = strdup(image);
  *out = modules + i;
  return 0;
}
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  char entry[100];
  ENTER(1);
  if (module < modules || module >= modules + SLOTS || !module->text || function_count == SLOTS) return misuse(BAD_HANDLE);
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (!strstr(module->text, entry)) return NOT_FOUND;
  *out = functions + function_count++;
  (*out)->module = module;
  return 0;
}
CUresult cuModuleUnload(CUmodule module) {
  ENTER(1);
  if (module < modules || module >= modules + SLOTS || !module->text) return misuse(BAD_HANDLE);
  free(module->text);
  module->text = NULL;
  return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size) { uint64_t a; ENTER(1); CUresult e = allocate(&a, size, 0); *out = e ? 0 : a; return e; }
CUresult cuMemFree_v2(CUdeviceptr address) { ENTER(1); return release(address, 0); }
CUresult cuMemAllocHost_v2(void **out, size_t size) { uint64_t a; ENTER(1); CUresult e = allocate(&a, size, 1); *out = e ? NULL : (void *)a; return e; }
CUresult cuMemFreeHost(void *pointer) { ENTER(1); return release((uint64_t)pointer, 1); }
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t size) { ENTER(1); return value || room(address, 0) < size ? misuse(INVALID) : 0; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  ENTER(1);
  if (room(to, 0) < size || room((uint64_t)from, 1) < size) return misuse(INVALID);
  wait_seconds(size / setting("STANDIN_CUDA_COPY", 5e10));
  return 0;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  ENTER(1);
  if (room(from, 0) < size) return misuse(INVALID);
  memcpy(to, (void *)(uintptr_t)from, size);
  return 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
  uint64_t p[PARAMETERS];
  ENTER(1);
  if (function < functions || function >= functions + function_count || !function->module->text) return misuse(BAD_HANDLE);
  if (!x || y != 1 || z != 1 || !threads || threads > 1024 || threads % 32 || ty != 1 || tz != 1 || shared || stream || extra) return misuse(INVALID);
  for (int i = 0; i < PARAMETERS; i++) memcpy(p + i, parameters[i], 8); /* counter results source target mask nanoseconds on */
  size_t bytes = (p[4] + 1) * 16;
  if (room(p[0], 0) < 8 || room(p[1], 0) < 4ul * x * threads || room(p[2], 0) < bytes || room(p[3], 0) < bytes || p[4] & (p[4] + 1))
    return misuse(BAD_ADDRESS);
  *(uint64_t *)(uintptr_t)p[0] += (uint64_t)(x * threads / 32 * (p[5] / setting("STANDIN_CUDA_ROUND_NS", 1000)));
  wait_seconds(p[5] * 1e-9);
  launches++;
  return 0;
}

/* cuBLAS; its statuses are other numbers than the driver's. */
enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, BF16 = 14, COMPUTE_32F = 68, GEMM_DEFAULT = -1 };

static int lacks_handle(void *handle) { return handle == &handles && handles ? 0 : misuse(NOT_INITIALIZED); }

const char *cublasGetStatusString(int status) { return status == NOT_INITIALIZED ? "the library was not initialized" : "stand-in"; }
int cublasCreate_v2(void **out) { ENTER(1); handles++; *out = &handles; return 0; }
int cublasDestroy_v2(void *handle) { ENTER(1); return lacks_handle(handle) || !handles-- ? NOT_INITIALIZED : 0; }
int cublasGetVersion_v2(void *handle, int *out) { ENTER(1); *out = 120804; return lacks_handle(handle); }
int cublasGemmEx(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a, int a_type,
                 int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm) {
  ENTER(1);
  if (lacks_handle(handle)) return NOT_INITIALIZED;
  if (transpose_a || transpose_b || m < 1 || n < 1 || k < 1 || lda < m || ldb < k || ldc < m || a_type != BF16 || b_type != BF16 ||
      c_type != BF16 || compute != COMPUTE_32F || algorithm != GEMM_DEFAULT || *(const float *)alpha != 1 || *(const float *)beta)
    return misuse(INVALID_VALUE);
  if (room((uint64_t)a, 0) < 2ul * lda * k || room((uint64_t)b, 0) < 2ul * ldb * n || room((uint64_t)c, 0) < 2ul * ldc * n)
    return misuse(INVALID_VALUE);
  extend(2.0 * m * n * k / setting("STANDIN_CUDA_FLOPS", 1e15));
  launches++;
  return 0;
}
