// The table of transports: what each one registers is whole, and the factory makes what the name says.
#include "transport/registry.hpp"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace coppice::transport {
namespace {

using ::testing::HasSubstr;

std::vector<SettingInfo> all_settings() {
    std::vector<SettingInfo> all;
    for (const Registration* one : registered())
        all.insert(all.end(), one->settings.begin(), one->settings.end());
    return all;
}

class Registered : public testing::TestWithParam<const Registration*> {
  protected:
    SettingTexts texts(std::string_view variable = {}, const char* value = nullptr) const {
        return {known_, [=](const char* name) { return variable == name ? value : nullptr; }};
    }
    const std::vector<SettingInfo> known_ = all_settings();
};

TEST_P(Registered, IsAmongTheNamesThatAreTold) {
    EXPECT_THAT(registered_names(), HasSubstr(std::string(GetParam()->name)));
}

TEST_P(Registered, SaysWhetherItIsMeantForThisHostIfItIsUsedUnasked) {
    EXPECT_EQ(GetParam()->is_default(), GetParam()->probe != nullptr);
}

TEST_P(Registered, ReadsItsDefaults) {
    const auto maker = GetParam()->read(texts());
    ASSERT_TRUE(maker) << maker.error().message;
    EXPECT_NE(*maker, nullptr);
}

// A transport that can't be had here says so; one that can has the name and the reach that were registered.
TEST_P(Registered, MakesATransportOfThatNameOrSaysWhyNot) {
    const auto maker = GetParam()->read(texts());
    ASSERT_TRUE(maker) << maker.error().message;
    const auto made = (*maker)->make({});
    if (!made) {
        EXPECT_EQ(made.error().status, COPPICE_ERR_NO_TRANSPORT) << made.error().message;
        EXPECT_THAT(made.error().message, HasSubstr(std::string(GetParam()->name) + ":"));
        return;
    }
    EXPECT_EQ(made->transport->capabilities().name, GetParam()->name);
    EXPECT_EQ(made->transport->capabilities().within_host, GetParam()->within_host);
    EXPECT_EQ(made->host_memory != nullptr, GetParam()->within_host);
}

INSTANTIATE_TEST_SUITE_P(Transports, Registered, testing::ValuesIn(registered().begin(), registered().end()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST(Registry, HasEachNameAndEachSettingOnce) {
    std::set<std::string_view> names;
    for (const Registration* one : registered())
        EXPECT_TRUE(names.insert(one->name).second) << one->name;
    std::set<std::string_view> variables;
    for (const SettingInfo& setting : all_settings())
        EXPECT_TRUE(variables.insert(setting.variable).second) << setting.variable;
}

}  // namespace
}  // namespace coppice::transport
