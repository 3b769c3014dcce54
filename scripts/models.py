#!/usr/bin/env python3
"""Writes data/models.json, the catalogue of models, from what two packages on PyPI say and from data/models-overlay.json.

`make models` downloads the packages (scripts/wheels/models.txt: exact versions and hashes) and calls this with their wheels:

    models.py LITELLM_WHEEL GENAI_PRICES_WHEEL DATE

Both packages are MIT. The wheels are read as data: nothing in them is run. litellm says most (limits, capabilities, dates of retirement);
genai-prices adds the models of OpenRouter, models that litellm lacks, and prices that will change on a known day. The overlay has the last
word: what only the providers' pages say, each line with its page. A field that nobody knows is left out.
"""

import ast
import json
import re
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "data" / "models.json"
OVERLAY = ROOT / "data" / "models-overlay.json"
MAX_BYTES = 400_000

# Parts of names that show that a model is not one to talk to by text.
NOT_CHAT = re.compile(
    r"audio|realtime|transcribe|search|deep-research|computer-use|image|tts|embed|moderation|whisper|live|robotics|lyria|omni|"
    r"learnlm|gemma-[123]|exp-|container|safeguard|instruct-0914|davinci|sonic|titan|pegasus|translate|voxtral|veo|guard|medlm"
)
# Makers whose models on OpenRouter are listed.
OPENROUTER_MAKERS = {
    "amazon", "anthropic", "cohere", "deepseek", "google", "meta-llama", "microsoft", "minimax", "mistralai", "moonshotai", "nvidia",
    "openai", "qwen", "x-ai", "xiaomi", "z-ai",
}
SNAPSHOT = re.compile(r"[-@](20\d{2}-?\d{2}-?\d{2}|default)$")
REGION = re.compile(r"^(us|eu|apac|au|jp|in|global|us-gov)\.")


def main(litellm_wheel, genai_wheel, today):
    models = {}
    for name, model in from_litellm(litellm_wheel):
        # The first spelling counts: `vertex_ai/x` and `x` are one model.
        models.setdefault(name, model)
    for name, model in from_genai_prices(genai_wheel, today):
        known = models.setdefault(name, model)
        if "later" in model:
            known["later"] = model["later"]
    overlay = json.loads(OVERLAY.read_text())
    for line in overlay["models"]:
        apply(models, line)
    merge_snapshots(models)
    check(models, today)
    listed = [{"name": name, **models[name]} for name in sorted(models)]
    head = {"made": today, "from": [wheel_name(litellm_wheel), wheel_name(genai_wheel), OVERLAY.name]}
    # A line for each model, so that a change can be read.
    lines = ",\n".join(json.dumps(model, separators=(",", ":"), ensure_ascii=False) for model in listed)
    text = json.dumps(head)[:-1] + ', "models": [\n' + lines + "\n]}\n"
    if len(text) > MAX_BYTES:
        sys.exit(f"{OUT} would have {len(text)} bytes; it is meant to stay under {MAX_BYTES}")
    OUT.write_text(text)
    print(f"{OUT.relative_to(ROOT)}: {len(listed)} models, {len(text)} bytes")


def wheel_name(path):
    name, version = Path(path).name.split("-")[:2]
    return f"{name.replace('_', '-')} {version}"


# --- litellm: one JSON object by name ---------------------------------------------------------------------------------------------------


def from_litellm(wheel):
    with zipfile.ZipFile(wheel) as archive:
        table = json.loads(archive.read("litellm/model_prices_and_context_window_backup.json"))
    for key, said in sorted(table.items(), key=lambda pair: (-pair[0].count("/"), pair[0])):
        name = spelled(key, said)
        if name and said.get("mode") in ("chat", "responses") and not NOT_CHAT.search(name):
            yield name, read_litellm(name, said)


def spelled(key, said):
    """A name as Rejoin spells it; None for what is left out: other providers, fine-tunes, copies of one model for a region."""
    provider = said.get("litellm_provider", "")
    bare = key.split("/", 1)[-1]
    if "/" in bare or key.startswith("ft:"):
        return None
    if provider in ("openai", "anthropic") and "/" not in key:
        return f"{provider}:{key}"
    if provider in ("gemini", "azure", "ollama") and key.startswith(provider + "/"):
        return f"{provider}:{bare}"
    if provider.startswith("vertex_ai") and bare.startswith(("gemini-", "claude-")):
        return f"vertex:{bare}"
    if provider == "bedrock_converse" and "/" not in key:
        return f"bedrock:{key}"
    return None


def read_litellm(name, said):
    provider = name.split(":")[0]
    model = {}
    price = litellm_price(said, "")
    if price:
        above = next((k for k in said if re.fullmatch(r"input_cost_per_token_above_\d+k_tokens", k)), None)
        if above:
            thousands = int(re.search(r"_(\d+)k_", above).group(1))
            long = litellm_price(said, f"_above_{thousands}k_tokens")
            # What long prompts cost is given for what all prompts have a price for; some lines hold more by mistake.
            price["above"] = {"tokens": thousands * 1000, **{word: usd for word, usd in long.items() if word in price}}
        model["price"] = price
    for field, source in (("context", "max_input_tokens"), ("maxOutput", "max_output_tokens")):
        if isinstance(said.get(source), (int, float)) and said[source] > 0:
            model[field] = int(said[source])
    can = [
        word
        for word, fields in (
            ("tools", ["supports_function_calling"]),
            ("parallelTools", ["supports_parallel_function_calling", "supports_parallel_tool_use_config"]),
            ("images", ["supports_vision", "supports_image_input"]),
            ("pdf", ["supports_pdf_input"]),
            ("audio", ["supports_audio_input"]),
            ("structuredOutput", ["supports_response_schema", "supports_native_structured_output"]),
            ("reasoning", ["supports_reasoning"]),
            ("caching", ["supports_prompt_caching"]),
        )
        if any(said.get(field) is True for field in fields)
    ]
    if can:
        model["can"] = can
    of_openai = provider in ("openai", "azure") or ":openai.gpt-" in name or re.search(r"\.openai\.gpt-\d", name)
    # OpenAI's reasoning models take no other temperature than 1 (litellm's own adapter drops it for the same models).
    if said.get("supports_sampling_params") is False or (of_openai and said.get("supports_reasoning") and "gpt-oss" not in name):
        model["temperature"] = False
    efforts = said.get("reasoning_effort_levels") or litellm_efforts(said)
    if efforts:
        model["efforts"] = efforts
    if said.get("mode") == "responses":
        model["responsesOnly"] = True
    if said.get("prompt_cache_min_tokens"):
        model["cacheMinTokens"] = int(said["prompt_cache_min_tokens"])
    if said.get("deprecation_date"):
        model["retiresOn"] = said["deprecation_date"]
    return model


def litellm_efforts(said):
    """Levels of reasoning effort, where the table says which there are beside the three that all have."""
    flags = {word: said.get(f"supports_{word}_reasoning_effort") for word in ("none", "minimal", "low", "xhigh", "max")}
    if not said.get("supports_reasoning") or all(flag is None for flag in flags.values()):
        return []
    has = {**{word: flag is True for word, flag in flags.items()}, "low": flags["low"] is not False, "medium": True, "high": True}
    return [word for word in ("none", "minimal", "low", "medium", "high", "xhigh", "max") if has[word]]


def litellm_price(said, suffix):
    fields = {
        "input": f"input_cost_per_token{suffix}",
        "cached": f"cache_read_input_token_cost{suffix}",
        "cacheWrite": f"cache_creation_input_token_cost{suffix}",
        "cacheWriteHour": f"cache_creation_input_token_cost_above_1hr{suffix}",
        "output": f"output_cost_per_token{suffix}",
    }
    price = {word: million(said[field]) for word, field in fields.items() if isinstance(said.get(field), (int, float))}
    return price if "input" in price and "output" in price else {}


def million(per_token):
    """Dollars for a million tokens, without the dust of binary fractions."""
    return plain(Decimal(str(per_token)) * 1_000_000)


def plain(number):
    number = round(float(number), 6)
    return int(number) if number == int(number) else number


# --- genai-prices: Python source, read as a tree and never run --------------------------------------------------------------------------


def from_genai_prices(wheel, today):
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("genai_prices/data.py"))
    assigned = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "providers")
    ours = {"openai": "openai", "anthropic": "anthropic", "openrouter": "openrouter", "google": "gemini"}
    for provider in literal(assigned.value):
        if provider["id"] not in ours:
            continue
        for said in provider["models"]:
            bare, prefix = said["id"], ours[provider["id"]]
            if NOT_CHAT.search(bare) or not listed_here(prefix, bare, said):
                continue
            if prefix == "gemini" and bare.startswith("claude-"):
                prefix = "vertex"
            model = read_genai_prices(said, today)
            if model:
                yield f"{prefix}:{bare}", model
                if prefix == "gemini":
                    yield f"vertex:{bare}", dict(model)


def listed_here(prefix, bare, said):
    if prefix == "openrouter":
        # Names with a tilde follow the newest model of a family, whose price nobody can tell beforehand.
        return bare.split("/")[0] in OPENROUTER_MAKERS and not said.get("deprecated") and not bare.endswith((":batch", ":extended"))
    if prefix == "gemini":
        return re.match(r"gemini-(2\.[05]-(pro|flash|flash-lite)$|[3-9])|claude-[a-z]+-[4-9]", bare)
    # What these two have beside litellm's table is either newer than it, or so old that nobody serves it.
    return re.match(r"(gpt-[5-9]|claude-[a-z]+-[5-9])", bare)


def read_genai_prices(said, today):
    current, later = None, []
    for price in said["prices"] if isinstance(said["prices"], list) else [{"prices": said["prices"]}]:
        constraint = price.get("constraint")
        if constraint and constraint["_"] != "StartDateConstraint":
            return None  # a price by the hour of the day
        since = "{:04}-{:02}-{:02}".format(*constraint["start_date"]["args"]) if constraint else ""
        read = genai_price(price["prices"])
        if not read:
            continue
        if since <= today:
            current = read
        else:
            later.append({"from": since, **read})
    if not current:
        return None
    model = {"price": current}
    if later:
        model["later"] = later
    if said.get("context_window"):
        model["context"] = said["context_window"]
    return model


def genai_price(said):
    fields = {
        "input": "input_mtok",
        "cached": "cache_read_mtok",
        "cacheWrite": "cache_write_mtok",
        "cacheWriteHour": "cache_write_1h_mtok",
        "output": "output_mtok",
    }
    price, above = {}, {}
    for word, field in fields.items():
        value = said.get(field)
        if value is None:
            continue
        if value["_"] == "Decimal":
            price[word] = plain(value["args"][0])
            continue
        price[word] = plain(value["base"]["args"][0])
        for tier in value["tiers"][:1]:
            above["tokens"] = tier["start"]
            above[word] = plain(tier["price"]["args"][0])
    if "input" not in price or "output" not in price:
        return {}
    if "input" in above and "output" in above:
        price["above"] = above
    return price


def literal(node):
    if isinstance(node, ast.Call):
        read = {word.arg: literal(word.value) for word in node.keywords}
        read["_"] = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if node.args:
            read["args"] = [literal(argument) for argument in node.args]
        return read
    if isinstance(node, ast.List | ast.Tuple):
        return [literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {literal(key): literal(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Attribute | ast.Name):
        return ast.unparse(node)
    return ast.literal_eval(node)


# --- The overlay, and the whole ---------------------------------------------------------------------------------------------------------


def apply(models, line):
    """A line of the overlay: `names`, the fields to set, `source`."""
    if not line.get("source", "").startswith("https://"):
        sys.exit(f"data/models-overlay.json: a line without a page as its source: {line}")
    fields = {key: value for key, value in line.items() if key not in ("names", "source", "note")}
    for name in line["names"]:
        models.setdefault(name, {}).update(fields)


def merge_snapshots(models):
    """A dated snapshot that says just what its model says is found by the model's name; so is a region's copy at the same price."""
    for name in sorted(models, key=len, reverse=True):
        base = SNAPSHOT.sub("", name)
        if base == name and name.startswith("bedrock:"):
            base = "bedrock:" + REGION.sub("", name.removeprefix("bedrock:"))
        if base != name and models.get(base) == models[name]:
            del models[name]


def check(models, today):
    for name, model in models.items():
        successor = model.get("successor")
        if successor and successor not in models:
            sys.exit(f"the successor of {name} is {successor}, which is not in the catalogue")
        seen = {name}
        while successor:
            if successor in seen:
                sys.exit(f"the successors of {name} go round in a circle")
            seen.add(successor)
            successor = models[successor].get("successor")
    for name, model in sorted(models.items()):
        if name.split(":")[0] in ("openai", "anthropic", "gemini") and model.get("retiresOn", "9") <= today and not model.get("successor"):
            print(f"retired, and no successor is known: {name}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: models.py LITELLM_WHEEL GENAI_PRICES_WHEEL DATE")
    main(*sys.argv[1:])
