#include "svg.hpp"

#include <fmt/format.h>

#include <iterator>

namespace coppice::sim {
namespace {

// Two decimals are finer than any screen; more only make the file larger.
std::string number(double value) {
    std::string text = fmt::format("{:.2f}", value);
    while (text.back() == '0')
        text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text == "-0" ? "0" : text;
}

std::string blank_before(std::string_view style) {
    return style.empty() ? std::string() : fmt::format(" {}", style);
}

std::string closing(std::string_view element, std::string_view tooltip) {
    if (tooltip.empty()) return "/>\n";
    return fmt::format("><title>{}</title></{}>\n", escape_xml(tooltip), element);
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title) {
    head_ = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
        "  <title>{2}</title>\n",
        number(width), number(height), escape_xml(title));
}

void Svg::define(std::string_view elements) {
    head_.append("  <defs>\n").append(elements).append("  </defs>\n");
}

void Svg::rect(double x, double y, double width, double height, std::string_view style, std::string_view tooltip) {
    fmt::format_to(std::back_inserter(body_), "{}<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}", indent_,
                   number(x), number(y), number(width), number(height), blank_before(style), closing("rect", tooltip));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
    fmt::format_to(std::back_inserter(body_), "{}<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", indent_,
                   number(x1), number(y1), number(x2), number(y2), blank_before(style));
}

void Svg::circle(double x, double y, double radius, std::string_view style, std::string_view tooltip) {
    fmt::format_to(std::back_inserter(body_), "{}<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}{}", indent_, number(x),
                   number(y), number(radius), blank_before(style), closing("circle", tooltip));
}

void Svg::text(double x, double y, std::string_view text, std::string_view style) {
    fmt::format_to(std::back_inserter(body_), "{}<text x=\"{}\" y=\"{}\"{}>{}</text>\n", indent_, number(x), number(y),
                   blank_before(style), escape_xml(text));
}

void Svg::open_group(std::string_view style) {
    fmt::format_to(std::back_inserter(body_), "{}<g{}>\n", indent_, blank_before(style));
    indent_ += "  ";
}

void Svg::close_group() {
    indent_.resize(indent_.size() - 2);
    body_.append(indent_).append("</g>\n");
}

std::string Svg::finish() const {
    return head_ + body_ + "</svg>\n";
}

std::string escape_xml(std::string_view text) {
    std::string escaped;
    for (const char letter : text) {
        switch (letter) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += letter;
        }
    }
    return escaped;
}

}  // namespace coppice::sim
