#include "tessera/data/template/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/definition.h"

namespace tessera::data {
namespace {

using testing::HasSubstr;

std::string render(const std::string& text, OrderedJson variables = OrderedJson::object()) {
  ChatRequest request;
  request.messages = {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hello"}}};
  request.variables = std::move(variables);
  return ChatTemplate(text, "t.jinja").render(request).text;
}

std::string error(const std::string& text) {
  return test::error_of([&] { render(text); });
}

// Expected texts by jinja2 3.1.6 with trim_blocks and lstrip_blocks.

TEST(ChatTemplate, Whitespace) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\n c\n"), "a\n  b\n c");
  EXPECT_EQ(render("a  {%- if true -%}  b  {%- endif %}  c"), "ab  c");
  EXPECT_EQ(render("  {{ 1 }}\n  {{- 2 -}}  \n3"), "  123");
  EXPECT_EQ(render("x\n    {%+ if true +%}\ny{% endif %}"), "x\n    \ny");
  EXPECT_EQ(render("a {# comment\n #}\nb"), "a b");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}\n!"), "{{ x }}!");
}

TEST(ChatTemplate, Expressions) {
  EXPECT_EQ(render("{{ 1 + 2 * 3 ** 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }}"), "19 3 -4 2 3.5");
  EXPECT_EQ(render("{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }}"), "a1None abab [1, 2]");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 2 in [1, 2] }} {{ 'x' not in 'abc' }}"), "True False True True");
  EXPECT_EQ(render("{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-1] }} {{ [1,2,3][-1] }} {{ 'né'[1] }}"), "bcd fedcba 3 é");
  EXPECT_EQ(render("{{ 'y' if false }}|{{ 'y' if false else 'n' }}|{{ none or 'd' }}|{{ 1 and 2 }}|{{ not 0 }}"), "|n|d|2|True");
  EXPECT_EQ(render("{{ {'a': 1, 'b': [true, none, 1.0, 'q\\'s']} }}"), "{'a': 1, 'b': [True, None, 1.0, \"q's\"]}");
  EXPECT_EQ(render("{{ 1e16 }} {{ 0.1 }} {{ 1.5e-7 }} {{ (1,) }}"), "1e+16 0.1 1.5e-07 (1,)");
  EXPECT_EQ(render("{{ missing }}|{{ missing is defined }}|{{ messages[0].content is string }}|{{ 4 is divisibleby 2 }}"), "|False|True|True");
}

TEST(ChatTemplate, LoopsAndScopes) {
  EXPECT_EQ(render("{% for m in messages %}{{ loop.index }}{{ m.role }}{{ ',' if not loop.last }}{% endfor %}"), "1user,2assistant");
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"), "231");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for i in range(5) if i % 2 %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"), "4");
  EXPECT_EQ(render("{% for i in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"), "023");
  EXPECT_EQ(render("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}"), "a=1");
}

TEST(ChatTemplate, MacrosAndBlocks) {
  EXPECT_EQ(render("{% macro m(a, b='d') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}"), "[1d][12]");
  EXPECT_EQ(render("{% macro m() %}<{{ caller('x') }}>{% endmacro %}{% call(v) m() %}{{ v }}!{% endcall %}"), "<x!>");
  EXPECT_EQ(render("{% set t %} a {{ 1 }} {% endset %}{{ t | trim }}"), "a 1");
  EXPECT_EQ(render("{% filter upper %}abc{% endfilter %}{% with a = 2 %}{{ a }}{% endwith %}"), "ABC2");
}

TEST(ChatTemplate, FiltersAndMethods) {
  EXPECT_EQ(render("{{ {'b': 1, 'a': [1, 'é\"']} | tojson }}"), "{\"b\": 1, \"a\": [1, \"é\\\"\"]}");
  EXPECT_EQ(render("{{ {'a': [1], 'e': {}} | tojson(indent=2) }}"), "{\n  \"a\": [\n    1\n  ],\n  \"e\": {}\n}");
  EXPECT_EQ(render("{{ messages | map(attribute='role') | join('+') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}"),
            "user+assistant 1");
  EXPECT_EQ(render("{{ ' a b '.strip().split(' ') }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'abc'.replace('b', 'x') }}"), "['a', 'b'] ['a-b', 'c'] axc");
  EXPECT_EQ(render("{{ 'x\ny' | indent(2) }}|{{ 'x' | default('d') }}|{{ missing | default('d') }}|{{ '' | default('d', true) }}"), "x\n  y|x|d|d");
  EXPECT_EQ(render("{{ '%5s|%-5s|%.2s|%05d|%x|%-6.2f|' % ('é', 'b', 'abc', 42, 255, 2.567) }}"), "    é|b    |ab|00042|ff|2.57  |");
  EXPECT_EQ(render("{{ '%(a)s-%(b)03d-%%' % {'a': none, 'b': 7} }}"), "None-007-%");
  EXPECT_THAT(error("{{ '%s' % (1, 2) }}"), HasSubstr("not all arguments converted"));
  EXPECT_THAT(error("{{ '%s %s' % 1 }}"), HasSubstr("not enough arguments"));
  EXPECT_THAT(error("{{ '%9999999s' % 1 }}"), HasSubstr("this wide is not supported"));
  EXPECT_EQ(render("{{ 'hello world' | title }} {{ 'aBC' | capitalize }} {{ '%s is %d' | format('x', 3) }}"), "Hello World Abc x is 3");
  EXPECT_EQ(render("{{ [3, 1, 2] | sort | first }}{{ {'b': 2, 'a': 1} | dictsort }}"), "1[('a', 1), ('b', 2)]");
}

TEST(ChatTemplate, ErrorsNameTemplateLineAndCause) {
  EXPECT_THAT(error("a\n{{ raise_exception('no such role') }}"), AllOf(HasSubstr("t.jinja:2"), HasSubstr("no such role")));
  EXPECT_THAT(error("{{ missing.x }}"), HasSubstr("'missing' is undefined"));
  EXPECT_THAT(error("{{ 'a' + 1 }}"), HasSubstr("can only concatenate str (not \"int\") to str"));
  EXPECT_THAT(error("{% if true %}"), HasSubstr("unexpected end of template"));
  EXPECT_THAT(error("{% include 'x' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(error("{{ x | nonsense }}"), HasSubstr("no filter named 'nonsense'"));
  EXPECT_THAT(error("{{ [1].append(2) }}"), HasSubstr("unsafe"));
  EXPECT_THAT(error("{{ ''.__class__ }}"), HasSubstr("unsafe"));
  EXPECT_THAT(error("{{ 'a }}"), HasSubstr("not closed"));
}

TEST(ChatTemplate, StrangersCannotExhaustTheMachine) {
  EXPECT_THAT(error("{% for i in range(100000) %}{% for j in range(100000) %}{{ j }}{% endfor %}{% endfor %}"), HasSubstr("more work"));
  EXPECT_THAT(error("{{ 'aaaaaaaaaa' * 100000000000 }}"), HasSubstr("more work"));
  EXPECT_THAT(error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("too deeply"));
  EXPECT_THAT(error("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
              HasSubstr("too large"));
  EXPECT_THAT(error("{% set ns = namespace(x=1) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}"), HasSubstr("nested deeper"));
  EXPECT_THAT(error("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(error("{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.f = m %}{% endfor %}{{ ns.f() }}"),
              HasSubstr("not supported"));
}

TEST(ChatTemplate, GenerationBlocksMarkWhatTheAssistantSays) {
  ChatRequest request;
  request.messages = {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hello"}}};
  const ChatTemplate marked(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content "
      "}}{% endif %}{% endfor %}",
      "t");
  EXPECT_TRUE(marked.marks_generation());
  EXPECT_FALSE(ChatTemplate("{{ generation }}", "t").marks_generation());
  const RenderedChat chat = marked.render(request);
  EXPECT_EQ(chat.text, "<user>Hi<assistant>Hello");
  ASSERT_EQ(chat.assistant_ranges.size(), 1);
  EXPECT_EQ(chat.text.substr(chat.assistant_ranges[0].first, chat.assistant_ranges[0].second - chat.assistant_ranges[0].first), "Hello");
}

TEST(ChatTemplate, TokenizerWithoutTemplateSaysSo) {
  const Tokenizer tokenizer = load_tokenizer(test::test_data("fixtures/tokenizer/byte_level.json"));
  EXPECT_THAT(test::error_of([&] { render_chat(tokenizer, OrderedJson::array(), true); }), HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace tessera::data
