// The template language: each expectation is what Jinja 3.1 prints, with the settings
// of HuggingFace transformers (trim_blocks, lstrip_blocks).
#include "runtime/text/jinja/Evaluator.h"
#include "runtime/text/jinja/Lexer.h"
#include "runtime/text/jinja/Parser.h"

#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::text::jinja;

namespace {

Result<std::string> render(const std::string &raw) {
  std::string source = normaliseTemplate(raw);
  Result<Body> body = parseTemplate(source);
  if (!body)
    return body.error();
  Dict message;
  message.set("role", Text("user", false));
  message.set("content", Text("Hi", false));
  Scope globals = {{"messages", Value(List{Value(std::move(message))})}};
  Result<Text> text = Evaluator(source, std::move(globals)).run(*body);
  if (!text)
    return text.error();
  return text->bytes();
}

struct Case {
  const char *source, *expected;
};

void expectAll(std::initializer_list<Case> cases) {
  for (const Case &c : cases) {
    Result<std::string> text = render(c.source);
    ASSERT_TRUE(text) << c.source << "\n" << text.error().message;
    EXPECT_EQ(*text, c.expected) << c.source;
  }
}

TEST(Jinja, ControlsWhiteSpace) {
  expectAll({
      {"a\n", "a"},
      {"a\r\nb\r\n\r\n", "a\nb\n"},
      {"a {%- if true -%}  b  {%- endif -%} c", "abc"},
      {"x {{- ' y ' -}} z", "x y z"},
      {"  {% if true %}\n  b\n  {% endif %}\nend", "  b\nend"},
      {"x {% if true %} {% endif %}", "x  "},
      {"{# note #}\nafter {#- b -#}  tail", "aftertail"},
      {"  {%+ if true %} keep{% endif +%}\nn", "   keep\nn"},
      {"  {{ 'x' }}\n  {# c #}\n y", "  x\n y"},
      {"}} stray %} #}", "}} stray %} #}"},
      {"\n{% if true %}\n\n x{% endif %}\n\n", "\n\n x"},
  });
}

TEST(Jinja, ComputesWithPrecedence) {
  expectAll({
      {"{{ 1 + 2 * 3 - 4 // 3 }}", "6"},
      {"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 - -1 }}", "-4 2 3.5 2"},
      {"{{ 'a' ~ 1 ~ none ~ true ~ nothing }}", "a1NoneTrue"},
      {"{{ 'a' 'b' }}{{ \"it's\" }}{{ 'q\\'\\u00e9\\x41\\\\' }}", "abit'sq'éA\\"},
      {"{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'a' < 'b' }}{{ 2 >= 2 }}", "TrueFalseTrueTrue"},
      {"{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' != 'b' }}{{ [1, 'a'] == [1, 'a'] }}",
       "TrueTrueTrueTrue"},
      {"{{ 0 or 'x' }}{{ 'y' and 'z' }}{{ not '' }}{{ not 0 and true }}", "xzTrueTrue"},
      {"{{ 'b' in 'abc' }}{{ 3 in [1, 2] }}{{ 'k' in {'k': 1} }}{{ 'z' not in 'abc' }}",
       "TrueFalseTrueTrue"},
      {"{{ 'a' if nothing is defined else 'b' }}{{ 'q' if false }}", "b"},
      {"{{ ([1] + [2, 3]) | length }}{{ (1, 2) | length }}{{ [[1, 2], [3, 4]][1][0] }}", "323"},
      {"{{ {'a': {'b': 2}}.a['b'] }}{{ {'a': 1}.b is defined }}", "2False"},
  });
}

TEST(Jinja, IndexesAndSlicesCharacters) {
  expectAll({
      {"{{ 'aéb'[1] }}{{ 'aéb'[-1] }}{{ 'abc'[7] }}", "éb"},
      {"{{ 'aéb'[1:] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-3:-1] }} {{ 'abcdef'[1:10:2] }}",
       "éb fedcba de bdf"},
      {"{{ 'abc'[5:] }}{{ 'abc'[2:1] }}{{ 'abc'[:-9] }}{{ 'abc'[::9] }}{{ 'abc'[::-9] }}", "ac"},
      {"{{ messages[0]['content'][1:] }}{{ messages[-1].role }}{{ messages[1:] | length }}",
       "iuser0"},
  });
}

TEST(Jinja, CallsFiltersTestsAndMethods) {
  expectAll({
      {"{{ ' a\u00a0' | trim }}|{{ 'Ab' | upper }}{{ 'Ab' | lower }}{{ 'aé' | length }}", "a|ABab2"},
      {"{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ 0 | d(1, boolean=true) }}",
       "de1"},
      {"{{ 'a,b,c'.split(',') | join('-') }}{{ 'a-b-c'.split('-', 1)[1] }}", "a-b-cb-c"},
      {"{{ ' a  b '.split() | join('.') }}{{ ' a b  c '.split(none, 1)[1] }}", "a.bb  c "},
      {"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('b') }}{{ 'b'.endswith('ab') }}",
       "TrueFalseFalse"},
      {"{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|", "a|a | a|"},
      {"{{ 'aXbX'.replace('X', 'yy') }}{{ 'aXbX' | replace('X', '', 1) }}", "ayybyyabX"},
      {"{{ {'a': [1, 2.5, none, true, 'é\"\\n']} | tojson }}", R"({"a": [1, 2.5, null, true, "é\"\n"]})"},
      {"{{ {'a': [1, {}], 'b': []} | tojson(indent=2) }}",
       "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
      {"{{ {'a': 1}.get('b', 'x') }}{{ {'a': 1}.keys() | first }}{{ {'a': 7}.values() | last }}",
       "xa7"},
      {"{{ messages is iterable }}{{ messages is mapping }}{{ 'a' is string }}{{ 1 is number }}",
       "TrueFalseTrueTrue"},
      {"{{ none is none }}{{ messages[0].x is not defined }}{{ true is boolean }}", "TrueTrueTrue"},
  });
}

TEST(Jinja, RunsLoopsInTheirOwnScope) {
  expectAll({
      {"{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }};"
       "{% endfor %}", "10TrueFalse;21FalseFalse;32FalseTrue;"},
      {"{% for i in [1, 2, 3, 4] if i % 2 == 0 %}{{ loop.length }}{{ i }}{% endfor %}", "2224"},
      {"{% for i in nothing %}x{% else %}empty{% endfor %}", "empty"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }},{% endfor %}", "a=1,b=2,"},
      {"{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}{{ a }}",
       "15151"},
      {"{% if true %}{% set a = 7 %}{% endif %}{{ a }}", "7"},
      {"{% set ns = namespace(n=0) %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% endfor %}"
       "{{ ns.n }}", "6"},
      {"{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}"
       "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "13"},
      {"{% if false %}a{% elif 1 %}b{% else %}c{% endif %}", "b"},
  });
}

struct BadCase {
  const char *source;
  ExitCode code;
  const char *words;
};

TEST(Jinja, NamesWhatItRefusesAndWhere) {
  constexpr ExitCode kNo = ExitCode::Unsupported, kBad = ExitCode::BadCheckpoint;
  const BadCase cases[] = {
      {"{% call f() %}{% endcall %}", kNo, "line 1, column 4: unsupported statement 'call'"},
      {"{% if true %}{% macro f() %}{% endmacro %}{% endif %}", kNo, "macro inside another statement"},
      {"{{ f() }}{% macro f() %}{% endmacro %}", kBad, "macro 'f' is called before it is there"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", kBad, "expected the parameters of macro 'f'"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", kBad, "expected the parameters of macro 'f'"},
      {"{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", ExitCode::DoesNotFit, "calls of macros"},
      {"{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}", ExitCode::DoesNotFit, "steps"},
      {"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", ExitCode::DoesNotFit, "steps"},
      {"{{ range(100001) }}", ExitCode::DoesNotFit, "at most 100000 numbers"},
      {"{% set n = namespace(x=0) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}", ExitCode::DoesNotFit, "nested at most 200 deep"},
      {"{% set n = namespace(x=0) %}{% set n.y = n %}", ExitCode::Unsupported, "a namespace as 'n.y'"},
      {"{% set n = namespace(x=0) %}{% set n.y = {'a': [n]} %}", ExitCode::Unsupported, "a namespace as 'n.y'"},
      {"{% set n = namespace(x=0) %}{% set m = namespace(y=[n]) %}", ExitCode::Unsupported, "a namespace as 'y' of a namespace"},
      {"{{ range(1, 2, 0) }}", kBad, "the last not 0"},
      {"{{ ('a' * 2000000) | list }}", kNo, "characters"},
      {"{{ 'a' * 99999999 }}", ExitCode::DoesNotFit, "64 MiB"},
      {"{{ [1, 'a'] | sort }}", kBad, "expected two numbers or two strings"},
      {"{{ [1] | select('frob') }}", kBad, "expected the name of a known test"},
      {"{{ [1] | map('frob') }}", kBad, "the name of a known filter"},
      {"{{ 'a' is odd }}", kBad, "expected an integer, got string"},
      {"a\n{% include 'x' %}", kNo, "line 2, column 4: unsupported statement 'include'"},
      {"｜｜{{ 'a' | frob }}", kNo, "line 1, column 12: unsupported filter 'frob'"},
      {"{{ x is frob }}", kNo, "unsupported test 'is frob'"},
      {"{{ 'a'.frob() }}", kNo, "unsupported method 'frob'"},
      {"{{ strftime_now('%d') }}", kNo, "unsupported function 'strftime_now'"},
      {"{{ 2 ** 3 }}", kNo, "operator '**'"},
      {"{{ [1] * 3 }}", kNo, "unsupported '*' of list and integer"},
      {"{% set x | upper %}a{% endset %}", kNo, "set block"},
      {"{% set a, b = [1] %}", kBad, "elements of 2 values, got 1"},
      {"{% for x in [] recursive %}{% endfor %}", kNo, "recursive for"},
      {"{{ {1: 2} }}", kNo, "dict key"},
      {"{{ [1, 2] }}", kNo, "printing a list"},
      {"{{ 'é' | upper }}", kNo, "case"},
      {"{{ {'a': 1}.items }}", kNo, "method 'items' without a call"},
      {"{{ 9223372036854775807 }}", kNo, "18 digits"},
      {"{{ 999999999999999999 * 999999999999999999 }}", kNo, "64 bits"},
      {"{{ 1 + }}", kBad, "column 8: expected an expression, got '}}'"},
      {"{{ 'abc }}", kBad, "column 4: expected a quote"},
      {"{{ [1, 2 }}", kBad, "expected '}}'"},
      {"{{ ? }}", kBad, "unexpected character '?'"},
      {"{% if %}", kBad, "expected an expression, got '%}'"},
      {"{% if true %}", kBad, "expected 'endif', got the end of the template"},
      {"{% for x in [1] %}", kBad, "expected 'endfor'"},
      {"{% endif %}", kBad, "'endif' without its beginning"},
      {"{% break %}", kBad, "'break' outside a for"},
      {"{# open", kBad, "expected '#}'"},
      {"{% if x", kBad, "expected '%}'"},
      {"{{ x", kBad, "expected '}}'"},
      {"{% set loop = 1 %}", kBad, "cannot assign to 'loop'"},
      {"{% set x.y = 1 %}", kBad, "undefined 'x'"},
      {"{% set m = messages %}{% set m.y = 1 %}", kBad, "expected 'm' to be a namespace, got list"},
      {"{{ nothing.x }}", kBad, "cannot look inside undefined 'nothing'"},
      {"{{ 'a' + none }}", kBad, "got string and none"},
      {"{{ none.split('a') }}", kBad, "method 'split', got none"},
      {"{{ 1 // 0 }}", kBad, "division by zero"},
      {"{{ 'a'[::0] }}", kBad, "step"},
      {"{{ 'a'.split('') }}", kBad, "separator"},
      {"{{ 'a' | trim(1) }}", kBad, "argument 'chars'"},
      {"{{ 'a' | length(1) }}", kBad, "more arguments"},
      {"{% for x in 5 %}{% endfor %}", kBad, "got integer"},
      {"{% for a, b in [[1]] %}{% endfor %}", kBad, "elements of 2 values, got 1"},
      {"{{ raise_exception('no\nway') }}", ExitCode::Usage, "refuses the messages: no way"},
      {"{% set n = namespace(s='0123456789abcdef') %}{% for c in 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' %}"
       "{% set n.s = n.s + n.s %}{% endfor %}", ExitCode::DoesNotFit, "64 MiB"},
  };
  for (const BadCase &c : cases) {
    Result<std::string> text = render(c.source);
    ASSERT_FALSE(text) << c.source << " gave " << *text;
    EXPECT_EQ(text.error().code, c.code) << c.source << ": " << text.error().message;
    EXPECT_NE(text.error().message.find(c.words), std::string::npos) << text.error().message;
    EXPECT_EQ(text.error().message.rfind("chat template: line ", 0), 0u) << text.error().message;
    EXPECT_EQ(text.error().message.find('\n'), std::string::npos) << text.error().message;
  }
}

std::string repeat(const std::string &text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i)
    result += text;
  return result;
}

TEST(Jinja, SurvivesHostileDepth) {
  for (const std::string &source :
       {"{{ " + repeat("(", 100000) + " }}", "{{ " + repeat("[", 100000) + " }}",
        "{{ " + repeat("not ", 100000) + "1 }}", "{{ " + repeat("-", 100000) + "1 }}",
        "{{ 1" + repeat("+1", 100000) + " }}", "{{ x" + repeat(".y", 100000) + " }}",
        "{{ x" + repeat("|trim", 100000) + " }}", "{{ 1" + repeat(" if 1 else 1", 100000) + " }}",
        repeat("{% if 1 %}", 100000), repeat("{% for x in y %}", 100000),
        "{{ 1" + repeat(" == 1 is defined", 100000) + " }}"})
    EXPECT_FALSE(render(source)) << source.substr(0, 40);
  Result<std::string> fine = render("{{ 1" + repeat("+1", 1500) + " }}");
  ASSERT_TRUE(fine) << fine.error().message;
  EXPECT_EQ(*fine, "1501");
}

TEST(Jinja, SurvivesEveryTruncation) {
  std::string source =
      "{% set ns = namespace(a='') %}{%- for m in messages if m.role != 'x' -%}{{ m['content'][1:]"
      " | default(\"\\u00e9\", true) ~ {'k': [1, -2.5]}['k'][0] }}{% else %}{# c #}{% endfor %}";
  ASSERT_TRUE(render(source)) << render(source).error().message;
  for (size_t size = 0; size < source.size(); ++size) {
    (void)bool(render(source.substr(0, size)));
    (void)bool(render(source.substr(size)));
    std::string damaged = source;
    damaged[size] = "\xFF{}%'|.[("[size % 9];
    (void)bool(render(damaged));
  }
}

} // namespace
