"""Golden renderings of chat templates: what transformers makes of messages.

Writes src/checkpoint/tests/chats.json. The templates are of this project; each uses what those of instruct
models use. They are rendered by Jinja in the environment that transformers sets up for
`apply_chat_template`: trim_blocks, lstrip_blocks, loop controls, its `tojson` and `raise_exception`.

    python chats.py        # needs jinja2
"""

import json
from pathlib import Path

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    "turns": (
        "{% for m in messages %}{{ '<|b|>' + m['role'] + '\\n' + m['content'] | trim + '<|e|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|b|>assistant\\n' }}{% endif %}\n"
    ),
    "default_system": """{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = 'You help.' %}
    {%- set rest = messages %}
{%- endif %}
{{- bos_token }}
{{- '[' ~ system | upper ~ ']' }}
{%- for m in rest %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- if m.role == 'user' %}
        {{- ' U: ' + m.content.strip() }}
    {%- elif m.role == 'assistant' %}
        {{- ' A: ' + m.content + eos_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt and messages[-1]['role'] != 'assistant' %} A:{% endif %}
""",
    "thoughts": """{% set ns = namespace(last=-1, seen=0) %}
{% for m in messages[::-1] %}
    {% if m.role == 'user' and not m.content.startswith('<result>') %}
        {% set ns.last = (messages | length - 1) - loop.index0 %}
        {% break %}
    {% endif %}
{% endfor %}
{% for m in messages %}
{% set ns.seen = ns.seen + 1 %}
{{ loop.index }}{{ '>' if loop.index0 == ns.last else '.' }} {{ m.role | title }}
{% if '</think>' in m.content %}
{{ m.content.split('</think>')[-1].lstrip('\\n') }}
{% elif m.content is string and m.content %}
{{ m.content | tojson }}
{% else %}
-
{% endif %}
{% endfor %}
{% if tools is not none and tools %}tools{% endif %}
{% if date is not defined %}{{ ns.seen }} turns{% endif %}

{% macro tail(word, n=2) %}{{ word * n }}{% endmacro %}
{{- tail('=') }}{{ {'a': [1, none, true], 'é': '<&>'} | tojson }}
""",
}
CHATS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "  Hi \n"), ("assistant", "Ho"), ("user", "\"é\" <b>\\n\t1")],
    [("user", "a"), ("assistant", "<think>\nx\n</think>\n\nb"), ("user", "<result>c"), ("assistant", "")],
    [("assistant", "first"), ("user", "second")],
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(template, chat):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    messages = [{"role": role, "content": content} for role, content in chat]
    given = dict(messages=messages, tools=None, documents=None, add_generation_prompt=True, **TOKENS)
    try:
        return {"text": environment.from_string(template).render(**given)}
    except jinja2.exceptions.TemplateError as error:
        return {"refusal": str(error)}


cases = [
    {"template": template, "chat": chat, **render(template, chat)} for template in TEMPLATES.values() for chat in CHATS
]
path = Path(__file__).parents[2] / "src/checkpoint/tests/chats.json"
path.write_text(json.dumps({"tokens": TOKENS, "cases": cases}, ensure_ascii=False, indent=1) + "\n")
