// Probes for bpftrace, perf, gdb and systemtap (USDT): a nop in the code and a note in the file that says where it is and in which
// registers its arguments are. docs/tracing.md lists them; nothing where sys/sdt.h was missing when Coppice was built.
#pragma once

#if COPPICE_PROBES
#include <sys/sdt.h>
#define COPPICE_PROBE(count, name, ...) DTRACE_PROBE##count(coppice, name, __VA_ARGS__)
#else
namespace coppice::trace {
template <class... Arguments>
constexpr void no_probe(const Arguments&... /*arguments*/) {}
}  // namespace coppice::trace
#define COPPICE_PROBE(count, name, ...) coppice::trace::no_probe(__VA_ARGS__)
#endif
