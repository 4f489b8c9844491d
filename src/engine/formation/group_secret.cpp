#include "engine/formation/group_secret.hpp"

#include <sodium.h>

#include <array>
#include <string_view>

namespace coppice::engine {

Result<std::string> draw_nonce() {
    if (sodium_init() < 0)
        return fail(COPPICE_ERR_NO_RESOURCES, "libsodium finds no source of random numbers on this machine");
    std::array<unsigned char, 32> random{};
    randombytes_buf(random.data(), random.size());
    std::string text(2 * random.size() + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), random.data(), random.size());
    text.pop_back();
    return text;
}

transport::GroupSecret derive_secret(std::span<const std::string> nonces) {
    constexpr std::string_view kPurpose = "coppice: secret of a group";
    crypto_generichash_state state;
    transport::GroupSecret secret;
    crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(),
                            secret.bytes.size());
    for (const std::string& nonce : nonces) {
        // The end of each counts, too, so that no two lists look alike.
        crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(nonce.c_str()), nonce.size() + 1);
    }
    crypto_generichash_final(&state, secret.bytes.data(), secret.bytes.size());
    return secret;
}

}  // namespace coppice::engine
