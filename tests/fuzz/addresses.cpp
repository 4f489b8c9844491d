// The second exchange: the list of a rank's addresses, and the address of each transport.
#include "base/mix.hpp"
#include "engine/wire/address_list.hpp"
#include "fuzz.hpp"
#include "transport/crc32c.hpp"
#include "transport/shm/segment.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/verbs/wire.hpp"

using namespace coppice;

namespace {

// Checksums are against accidents: an attacker gets them right, and so does this harness, as the fuzzer would not find
// them.
void make_sound(std::uint8_t which, std::vector<std::byte>& address) {
    const auto put = [&](std::size_t at, const auto& sum) { std::memcpy(address.data() + at, &sum, sizeof sum); };
    const std::span<const std::byte> bytes(address);
    if (which == 1 && address.size() >= sizeof(std::uint64_t)) {  // shm: FNV-1a at the end
        const std::size_t at = address.size() - sizeof(std::uint64_t);
        put(at, fnv1a<std::uint64_t>(bytes.first(at)));
    }
    constexpr std::size_t kEnvelope = 24;  // ucx: release, size and FNV-1a in front
    if (which == 2 && address.size() >= kEnvelope) {
        put(12, transport::ucx::ucx_release());
        put(16, static_cast<std::uint32_t>(address.size() - kEnvelope));
        put(20, fnv1a<std::uint32_t>(bytes.subspan(kEnvelope)));
    }
    if (which == 3 && address.size() >= sizeof(std::uint32_t)) {  // verbs: CRC-32C at the end
        const std::size_t at = address.size() - sizeof(std::uint32_t);
        put(at, transport::crc32c(bytes.first(at)));
    }
}

void decode_each(std::span<const std::byte> address) {
    if (const auto shm = transport::shm::decode(Seat(1), address)) {
        const auto again = transport::shm::decode(Seat(1), transport::shm::encode(*shm));
        FUZZ_CHECK(again && again->host == shm->host && again->segment_size == shm->segment_size);
    }
    for (const bool put : {false, true}) {
        const auto ucx = transport::ucx::unpack_address(Seat(1), address, put);
        if (!ucx) continue;
        FUZZ_CHECK(ucx->worker.size() < address.size());
        const auto packed = transport::ucx::pack_address(ucx->worker, put, ucx->incarnation);
        FUZZ_CHECK(packed && packed->size() == address.size());
    }
    if (const auto verbs = transport::verbs::decode_address(Seat(1), address)) {
        const auto again = transport::verbs::decode_address(Seat(1), transport::verbs::encode(*verbs));
        FUZZ_CHECK(again && again->rank == verbs->rank &&
                   std::memcmp(&again->where, &verbs->where, sizeof verbs->where) == 0);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto which = input.number<std::uint8_t>();
    std::vector<std::byte> all = fuzz::exact(input.rest());
    make_sound(which, all);
    decode_each(all);
    for (const char* name : {"shm", "ucx", "verbs", "tcp", ""}) {
        const auto address = engine::find_address(all, name);
        if (!address) continue;
        FUZZ_CHECK(fuzz::within(*address, all));
        decode_each(fuzz::exact(*address));
        std::vector<std::byte> list;
        engine::append_address(list, name, *address);
        const auto found = engine::find_address(list, name);
        FUZZ_CHECK(found && fuzz::same(*found, *address));
    }
    return 0;
}
