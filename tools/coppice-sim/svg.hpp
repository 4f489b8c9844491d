// A picture as SVG 1.1, written element by element. Coordinates are pixels; styles are attributes as they stand in the
// file.
#pragma once

#include <string>
#include <string_view>

namespace coppice::sim {

class Svg {
  public:
    // `title` is what screen readers and tooltips say.
    Svg(double width, double height, std::string_view title);

    // What stands once at the top: <style>, <marker>, <pattern>.
    void define(std::string_view elements);
    void rect(double x, double y, double width, double height, std::string_view style, std::string_view tooltip = {});
    void line(double x1, double y1, double x2, double y2, std::string_view style);
    void circle(double x, double y, double radius, std::string_view style, std::string_view tooltip = {});
    void text(double x, double y, std::string_view text, std::string_view style = {});
    // Elements until close_group() share the style.
    void open_group(std::string_view style);
    void close_group();

    // The whole file.
    std::string finish() const;

  private:
    std::string head_;
    std::string body_;
    std::string indent_ = "  ";
};

// Text for the inside of an element or of an attribute.
std::string escape_xml(std::string_view text);

}  // namespace coppice::sim
