// The keys by which ranks read each other's memory over UCX. (The reads themselves want an RDMA device: tests/soft-roce.)
#include "transport/ucx/get.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "transport/ucx/library.hpp"
#include "transport/ucx/wire.hpp"

namespace coppice::testing {
namespace {

using transport::ucx::kMaxKey;
using transport::ucx::OwnMemory;
using transport::ucx::PeerKey;
using transport::ucx::PeerKeys;

class UcxKeys : public ::testing::Test {
  protected:
    UcxKeys() {
        if (!transport::ucx::load()) throw std::runtime_error(transport::ucx::load().error().message);
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA;
        if (ucp_init(&params, nullptr, &context_) != UCS_OK) throw std::runtime_error("no UCX");
        own_ = std::make_unique<OwnMemory>(context_);
    }
    ~UcxKeys() override {
        own_.reset();
        ucp_cleanup(context_);
    }

    ucp_context_h context_ = nullptr;
    std::unique_ptr<OwnMemory> own_;
    std::vector<std::byte> memory_{std::size_t{1} << 16};
};

TEST_F(UcxKeys, APieceHasOneForAsLongAsItIsOpen) {
    const auto one = own_->expose(memory_);
    const auto other = own_->expose(memory_);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->address, reinterpret_cast<std::uint64_t>(memory_.data()));
    EXPECT_NE(one->key, other->key);
    EXPECT_FALSE(own_->key_of(one->key).bytes.empty());
    own_->withdraw(one->key);
    EXPECT_TRUE(own_->key_of(one->key).bytes.empty());
    EXPECT_FALSE(own_->key_of(other->key).bytes.empty());
    own_->withdraw(one->key);  // once more is nothing
    EXPECT_TRUE(own_->key_of(77).bytes.empty());
}

// UCX refers to it until it has been sent.
TEST_F(UcxKeys, AKeyThatIsUnderWayStaysWhereItIsWhenItsPieceIsWithdrawn) {
    const auto one = own_->expose(memory_);
    ASSERT_TRUE(one);
    const OwnMemory::Key key = own_->key_of(one->key);
    const std::vector<std::byte> before(key.bytes.begin(), key.bytes.end());
    ++*key.in_flight;
    own_->withdraw(one->key);
    for (int i = 0; i < 8; ++i)
        own_->withdraw(own_->expose(memory_)->key);
    EXPECT_TRUE(own_->key_of(one->key).bytes.empty()) << "nobody is given it any more";
    EXPECT_TRUE(std::ranges::equal(key.bytes, before));
    --*key.in_flight;
}

TEST(PeerKeys, OnlyWhatWasAskedForIsTaken) {
    PeerKeys keys;
    const std::vector<std::byte> bytes(8, std::byte{1});
    EXPECT_FALSE(keys.note(5, bytes)) << "of no piece that is known";
    PeerKey* const key = keys.obtain(5);
    EXPECT_FALSE(keys.note(5, bytes)) << "before it was asked for";
    key->state = PeerKey::State::asked;
    EXPECT_FALSE(keys.note(5, std::vector<std::byte>(kMaxKey + 1)));
    EXPECT_TRUE(keys.note(5, bytes));
    EXPECT_EQ(key->state, PeerKey::State::noted);
    EXPECT_EQ(key->bytes.size(), bytes.size() + kMaxKey) << "zeros behind it";
    EXPECT_FALSE(keys.note(5, bytes)) << "twice";
    PeerKey* const none = keys.obtain(6);
    none->state = PeerKey::State::asked;
    EXPECT_TRUE(keys.note(6, {}));
    EXPECT_EQ(none->state, PeerKey::State::refused);
}

TEST(PeerKeys, TheOneThatWasUsedLongestAgoGivesWayUnlessItIsInUse) {
    PeerKeys keys;
    for (std::uint32_t number = 0; number < PeerKeys::kMost; ++number)
        keys.obtain(number)->users = number == 1 ? 1 : 0;
    PeerKey* const first = keys.obtain(0);
    first->state = PeerKey::State::noted;
    keys.obtain(2)->state = PeerKey::State::refused;
    keys.obtain(0);
    keys.obtain(2);
    for (std::uint32_t number = 3; number < PeerKeys::kMost; ++number)
        keys.obtain(number);
    ASSERT_NE(keys.obtain(100), nullptr);
    EXPECT_EQ(keys.obtain(1)->users, 1U) << "it was used longest ago, and is in use";
    EXPECT_EQ(keys.obtain(2)->state, PeerKey::State::refused);
    EXPECT_NE(keys.obtain(0)->state, PeerKey::State::noted) << "a new one: the first that was free has given way";
}

TEST(PeerKeys, ThereIsNoneMoreWhereAllAreInUse) {
    PeerKeys keys;
    for (std::uint32_t number = 0; number < PeerKeys::kMost; ++number) {
        PeerKey* const key = keys.obtain(number);
        if (number % 2 == 0)
            key->users = 1;
        else
            key->state = PeerKey::State::asked;
    }
    EXPECT_EQ(keys.obtain(100), nullptr);
    EXPECT_NE(keys.obtain(7), nullptr);
}

}  // namespace
}  // namespace coppice::testing
