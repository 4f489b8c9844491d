#include "protocol/agreement/agreement_body.hpp"

#include "protocol/agreement/failed_codec.hpp"
#include "protocol/agreement/operation.hpp"

namespace coppice::protocol {
namespace {

constexpr unsigned kMismatched = 1;
constexpr unsigned kUnacknowledged = 2;
constexpr unsigned kHasFailed = 4;
constexpr unsigned kHasAcknowledged = 8;
constexpr unsigned kChangeWaits = 16;
constexpr unsigned kAllFlags = 31;

bool has(const FailedSet* set) {
    return set != nullptr && !set->empty();
}

bool is_possible(std::uint8_t operation, std::size_t bytes) {
    if (operation == kFlushCode) return bytes == 0;
    const auto decoded = decode_operation(operation);
    if (!decoded) return false;
    // A caller's own function is not at hand; its size is as good as any.
    return decoded->op == Operator::user || !reason_against(*decoded, bytes);
}

}  // namespace

void AgreementBody::write(std::vector<std::byte>& out) const {
    const unsigned flags = (mismatched ? kMismatched : 0) | (unacknowledged ? kUnacknowledged : 0) |
                           (has(failed) ? kHasFailed : 0) | (has(acknowledged) ? kHasAcknowledged : 0) |
                           (change_waits ? kChangeWaits : 0);
    const std::size_t start = out.size();
    out.resize(start + kBodyHeader);
    out[start] = static_cast<std::byte>(flags);
    out[start + 1] = static_cast<std::byte>(operation);
    out[start + 2] = static_cast<std::byte>(lag);
    out[start + 3] = static_cast<std::byte>(value.size() & 0xff);
    out[start + 4] = static_cast<std::byte>(value.size() >> 8);
    out.insert(out.end(), value.begin(), value.end());
    if (has(failed)) write_failed(*failed, out);
    if (has(acknowledged)) write_failed(*acknowledged, out);
}

bool read_body(std::span<const std::byte> bytes, std::size_t max_value, std::uint32_t ranks, FailedSet& failed,
               FailedSet& acknowledged, AgreementBody& body) {
    if (bytes.size() < kBodyHeader) return false;
    const auto flags = std::to_integer<unsigned>(bytes[0]);
    const std::size_t size = std::to_integer<std::size_t>(bytes[3]) | std::to_integer<std::size_t>(bytes[4]) << 8;
    if ((flags & ~kAllFlags) != 0 || size > max_value || size > bytes.size() - kBodyHeader) return false;
    body = AgreementBody{};
    body.operation = std::to_integer<std::uint8_t>(bytes[1]);
    body.mismatched = (flags & kMismatched) != 0;
    body.unacknowledged = (flags & kUnacknowledged) != 0;
    body.change_waits = (flags & kChangeWaits) != 0;
    body.lag = std::to_integer<std::uint8_t>(bytes[2]);
    body.value = bytes.subspan(kBodyHeader, size);
    if (!is_possible(body.operation, size)) return false;
    std::span<const std::byte> rest = bytes.subspan(kBodyHeader + size);
    if ((flags & kHasFailed) != 0) {
        if (!read_failed(rest, ranks, failed) || failed.empty()) return false;
        body.failed = &failed;
    }
    if ((flags & kHasAcknowledged) != 0) {
        if (!read_failed(rest, ranks, acknowledged) || acknowledged.empty()) return false;
        body.acknowledged = &acknowledged;
    }
    return rest.empty();
}

}  // namespace coppice::protocol
