#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/text.hpp"

namespace coppice::testing {

std::vector<std::string> golden_files(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
        names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

void expect_golden(const std::string& directory, const std::string& name,
                   const std::function<std::string(const std::string& scenario)>& tell) {
    const std::string path = directory + "/" + name + ".txt";
    std::ifstream file(path);
    std::string scenario;
    ASSERT_TRUE(std::getline(file, scenario)) << path;
    ASSERT_TRUE(scenario.starts_with("scenario ")) << path;
    std::stringstream expected;
    expected << file.rdbuf();
    const std::string told = tell(scenario);
    if (std::getenv("COPPICE_REWRITE_GOLDEN") != nullptr) {
        std::ofstream(path) << scenario << "\n" << told;
        return;
    }
    EXPECT_EQ(told, expected.str()) << path;
}

std::map<std::string, std::string> settings_of(const std::string& scenario) {
    std::map<std::string, std::string> settings;
    for (const std::string& word : split(scenario, ' ')) {
        const std::size_t equals = word.find('=');
        if (equals != std::string::npos) settings[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return settings;
}

}  // namespace coppice::testing
