#!/usr/bin/env python3
"""Renders cases.json with Jinja2, set up as transformers does for chat templates, and writes expected.json.

Run it after a change of a template or case: python3 test/data/templates/make_expected.py (needs jinja2 3.1). The settings are
those of transformers.utils.chat_template_utils: a sandbox with trim_blocks, lstrip_blocks and loop controls, tojson that
writes plain JSON, and raise_exception.
"""

import json
import pathlib

import jinja2
import jinja2.sandbox

FOLDER = pathlib.Path(__file__).parent


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def main():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    expected = []
    for case in json.loads((FOLDER / "cases.json").read_text()):
        template = environment.from_string((FOLDER / case["template"]).read_text())
        variables = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>", "tools": None, "documents": None}
        variables.update(case.get("variables", {}))
        variables["messages"] = case["messages"]
        variables["add_generation_prompt"] = case.get("add_generation_prompt", True)
        try:
            expected.append({"name": case["name"], "text": template.render(**variables)})
        except (jinja2.exceptions.TemplateError, TypeError) as error:
            expected.append({"name": case["name"], "error": str(error)})
    (FOLDER / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
