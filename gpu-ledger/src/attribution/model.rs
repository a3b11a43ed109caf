//! Which model a runner served.
//!
//! Purpose: the model's name from the arguments of the program that loaded it. May touch: nothing. May not:
//! guess; a default that the arguments do not name is not read, nor one from the environment or a file.

use std::sync::Arc;

use super::ollama::{Blobs, is_sha256};
use crate::argv::redact_word;

/// Bytes of a name; a longer one is none. Two file names' worth: an organisation and a model.
const NAME_BYTES_MAX: usize = 512;

/// A program that loads a model that its arguments name.
struct Runner {
    /// Its names: a file, or a Python module. `*` at one end stands for anything.
    names: &'static [&'static str],
    /// The words that must come first.
    command: &'static [&'static str],
    /// Options with the name under which it is served, the best first.
    served: &'static [&'static str],
    /// Options with a path or an id of a model, the best first.
    model: &'static [&'static str],
    /// Whether the first word after the command is the model.
    positional: bool,
    /// Its options, where they are known: the model is then found behind any of them.
    grammar: Option<Grammar>,
}

/// How a program's options end. One that stands in neither list takes exactly one word, so one that is not known
/// here can hide a model, and makes none of something else.
struct Grammar {
    /// Options that take no word; `--no-` of any option takes none either.
    flags: &'static [&'static str],
    /// Options that take every word up to the next option.
    lists: &'static [&'static str],
    /// Options that took one word in some versions, and take as many as there are in others.
    one_or_many: &'static [&'static str],
}

const fn runner(names: &'static [&'static str], model: &'static [&'static str]) -> Runner {
    Runner { names, command: &[], served: &[], model, positional: false, grammar: None }
}

impl Runner {
    const fn command(self, command: &'static [&'static str]) -> Self {
        Self { command, ..self }
    }

    const fn served(self, served: &'static [&'static str]) -> Self {
        Self { served, ..self }
    }

    const fn positional(self) -> Self {
        Self { positional: true, ..self }
    }

    const fn grammar(self, grammar: Grammar) -> Self {
        Self { positional: true, grammar: Some(grammar), ..self }
    }
}

const SERVED: &[&str] = &["--served-model-name"];

/// `vllm serve`: every option of vllm/entrypoints/openai/cli_args.py and vllm/engine/arg_utils.py that is a bool or a
/// `store_true` (0.6 to 0.12), and those with `nargs="+"`. `--api-key` took one key before 0.10, and several since.
const VLLM: Grammar = Grammar {
    #[rustfmt::skip]
    flags: &[
        "-h", "--help", "-v", "--version", "--headless", "--grpc", "--trust-request-chat-template",
        "--return-tokens-as-token-ids", "--enable-auto-tool-choice", "--exclude-tools-when-tool-choice-none",
        "--enable-prompt-tokens-details", "--enable-per-request-metrics", "--enable-server-load-tracking",
        "--enable-force-include-usage", "--enable-tokenizer-info-endpoint", "--enable-log-outputs",
        "--enable-log-deltas", "--cohere-is-reasoning-model", "--log-error-stack", "--tokens-only",
        "--disable-uvicorn-access-log", "--allow-credentials", "--enable-ssl-refresh",
        "--enable-request-id-headers", "--disable-fastapi-docs", "--enable-offline-docs",
        "--enable-flash-late-interaction", "--disable-frontend-multiprocessing", "--enable-reasoning",
        "--trust-remote-code", "--enforce-eager", "--disable-sliding-window", "--disable-cascade-attn",
        "--skip-tokenizer-init", "--enable-prompt-embeds", "--enable-sleep-mode", "--use-tqdm-on-load",
        "--enable-expert-parallel", "-ep", "--enable-eplb", "--eplb-log-balancedness", "--enable-dbo",
        "--data-parallel-hybrid-lb", "-dph", "--data-parallel-external-lb", "-dpe",
        "--data-parallel-multi-port-external-lb", "--disable-custom-all-reduce", "--ray-workers-use-nsight",
        "--disable-nccl-for-dp-synchronization", "--worker-use-ray", "--engine-use-ray",
        "--enable-prefix-caching", "--calculate-kv-scales", "--kv-sharing-fast-prefill",
        "--enable-chunked-prefill", "--use-v2-block-manager", "--enable-lora", "--enable-lora-bias",
        "--fully-sharded-loras", "--enable-prompt-adapter", "--disable-log-stats",
        "--aggregate-engine-logging", "--disable-log-requests", "--enable-log-requests",
        "--disable-chunked-mm-input", "--disable-hybrid-kv-cache-manager", "--async-scheduling",
        "--disable-async-output-proc", "--disable-mm-preprocessor-cache", "--multi-step-stream-outputs",
        "--interleave-mm-strings", "--skip-mm-profiling", "--enable-mm-embeds",
        "--enable-multimodal-encoder-data-parallel",
    ],
    #[rustfmt::skip]
    lists: &[
        "--lora-modules", "--prompt-adapters", "--served-model-name", "--ignore-patterns", "--logits-processors",
        "--allowed-media-domains", "--collect-detailed-traces", "--cuda-graph-sizes", "--cudagraph-capture-sizes",
        "--long-lora-scaling-factors",
    ],
    one_or_many: &["--api-key"],
};

/// `text-generation-server serve`: server/text_generation_server/cli.py (1.0 to 3.3), where a bool is a flag.
const TGI: Grammar = Grammar {
    flags: &["--help", "--sharded", "--trust-remote-code", "--json-output"],
    lists: &[],
    one_or_many: &[],
};

/// `llama-run`: tools/run/run.cpp. No other program of llama.cpp takes its model without an option.
const LLAMA_RUN: Grammar = Grammar {
    flags: &["-h", "--help", "-v", "--verbose", "--log-verbose", "--jinja"],
    lists: &[],
    one_or_many: &[],
};

/// What is known, by whom it is documented. Options are written with dashes; underscores are the same, as
/// vLLM, SGLang and argparse's users mix them.
#[rustfmt::skip]
const RUNNERS: &[Runner] = &[
    // llama.cpp, tools/server/README.md and tools/*/README.md; ollama starts the same server since 0.30.
    runner(
        &["llama", "llama-server", "llama-cli", "llama-bench", "llama-batched-bench", "llama-embedding",
            "llama-mtmd-cli", "llama-perplexity", "llama-simple", "llama-speculative", "llama-tts"],
        &["-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"],
    ).served(&["--alias", "-a"]),
    runner(&["llama-run"], &[]).grammar(LLAMA_RUN),
    // ollama, llm/server.go: its runner, in older ones a program of its own. Others of its commands are clients.
    runner(&["ollama"], &["--model", "-model"]).command(&["runner"]),
    runner(&["ollama_llama_server"], &["--model"]),
    // vLLM, docs/serving/openai_compatible_server.md; vllm/entrypoints/cli.
    runner(&["vllm", "vllm.entrypoints.cli.main"], &["--model"]).command(&["serve"]).served(SERVED).grammar(VLLM),
    runner(&["vllm", "vllm.entrypoints.*"], &["--model"]).served(SERVED),
    // Text Generation Inference, docs/source/reference/launcher.md; server/text_generation_server/cli.py.
    runner(&["text-generation-launcher"], &["--model-id"]),
    runner(&["text-generation-server"], &[]).command(&["serve"]).grammar(TGI),
    // Text Embeddings Inference, docs/source/en/cli_arguments.md.
    runner(&["text-embeddings-router"], &["--model-id"]).served(SERVED),
    // SGLang, docs/advanced_features/server_arguments.md.
    runner(&["sglang.launch_server", "sglang"], &["--model-path", "--model"]).served(SERVED),
    // TensorRT-LLM, docs/source/commands/trtllm-serve.
    runner(&["trtllm-serve"], &[]).command(&["serve"]).served(SERVED).positional(),
    runner(&["trtllm-serve"], &[]).command(&["mm_embedding_serve"]).positional(),
    runner(&["trtllm-serve"], &[]).command(&["disaggregated"]),
    runner(&["trtllm-serve"], &[]).command(&["disaggregated_mpi_worker"]),
    runner(&["trtllm-serve"], &[]).served(SERVED).positional(),
    // LMDeploy, docs/en/llm/api_server.md.
    runner(&["lmdeploy"], &[]).command(&["serve", "api_server"]).served(&["--model-name"]).positional(),
    // MLC LLM, docs/deploy/rest.rst.
    runner(&["mlc_llm"], &[]).command(&["serve"]).positional(),
    // Aphrodite, README.md.
    runner(&["aphrodite"], &["--model"]).command(&["run"]).served(SERVED).positional(),
    runner(&["aphrodite.endpoints.*"], &["--model"]).served(SERVED),
    // mistral.rs, README.md: `plain -m ID`, `gguf -m FOLDER -f FILE`.
    runner(&["mistralrs-server", "mistralrs"], &["-f", "--quantized-filename", "-m", "--model-id"]),
    // llama-cpp-python, docs/server.md.
    runner(&["llama_cpp.server"], &["--model"]).served(&["--model-alias"]),
    // llamafile, README.md: a runner, or a runner with its weights in one file.
    runner(&["llamafile*", "*.llamafile"], &["-m", "--model", "-hf", "--hf-repo"]).served(&["--alias", "-a"]),
    // KoboldCpp, koboldcpp.py: the release's binaries have the platform in their names.
    runner(&["koboldcpp*"], &["--model", "-m"]),
    // ExLlamaV2, README.md; TabbyAPI, common/args.py; text-generation-webui, README.md.
    runner(&["test_inference.py"], &["-m", "--model-dir"]),
    runner(&["tabbyAPI", "main.py", "start.py"], &["--model-name"]),
    runner(&["server.py"], &["--model"]),
    // LightLLM, README.md; FastChat, README.md; Infinity, README.md.
    runner(&["lightllm.server.api_server"], &["--model-dir"]),
    runner(&["fastchat.serve.*"], &["--model-path"]).served(&["--model-names"]),
    runner(&["infinity_emb"], &["--model-id"]).command(&["v2"]).served(SERVED),
    // Whisper, README.md (whisper/transcribe.py); whisper.cpp, examples/cli/README.md; WhisperX, whisper-ctranslate2
    // and wyoming-faster-whisper, README.md.
    runner(&["whisper", "whisperx", "whisper-ctranslate2", "wyoming_faster_whisper"], &["--model"]),
    runner(&["whisper-cli", "whisper-server", "whisper-stream", "whisper-bench"], &["-m", "--model"]),
    // stable-diffusion.cpp, examples/cli/README.md.
    runner(&["sd", "sd-cli", "sd-server"], &["-m", "--model", "--diffusion-model"]),
];

/// Options that mean the same wherever they stand: those of the training scripts of diffusers
/// (examples/text_to_image/README.md), transformers (examples/pytorch) and of what is written after them.
const ANY: Runner =
    runner(&["*"], &["--pretrained-model-name-or-path", "--model-name-or-path"]).served(SERVED);

/// The model that a program was told to load: its served name, a model's id, a file's name without folder and
/// ending. `None` where the arguments do not say: no runner that is known, a default, or a worker that
/// overwrote its arguments (`VLLM::EngineCore`), whose ancestors may say.
///
/// `program` is the image's program ([`crate::identity::Program`]); without it, what `argv[0]` calls it. A blob of
/// ollama's has the name that `blobs` has for it, or the beginning of its digest.
#[must_use]
pub fn model_of(program: Option<&[u8]>, argv: &[Vec<u8>], blobs: &Blobs) -> Option<Arc<str>> {
    let program = program.or_else(|| argv.first().map(|word| base_name(word)))?;
    let words = words_of(program, argv);
    let known = RUNNERS.iter().find(|runner| runner.is(program) && runner.after(words).is_some());
    known.into_iter().chain([&ANY]).find_map(|runner| runner.model(words, blobs)).or_else(|| {
        // A llamafile with its weights inside.
        let stem = program.strip_suffix(b".llamafile")?;
        name(stem)
    })
}

impl Runner {
    fn is(&self, program: &[u8]) -> bool {
        self.names.iter().any(|known| {
            let known = known.as_bytes();
            match (known.strip_suffix(b"*"), known.strip_prefix(b"*")) {
                (Some(beginning), _) => program.starts_with(beginning),
                (None, Some(end)) => program.ends_with(end),
                (None, None) => program == known,
            }
        })
    }

    /// The words after the command; `None` where it is another one.
    fn after<'a>(&self, words: &'a [Vec<u8>]) -> Option<&'a [Vec<u8>]> {
        let (command, rest) = words.split_at_checked(self.command.len())?;
        let mut pairs = command.iter().zip(self.command);
        pairs.all(|(word, wanted)| word == wanted.as_bytes()).then_some(rest)
    }

    fn model(&self, words: &[Vec<u8>], blobs: &Blobs) -> Option<Arc<str>> {
        let words = self.after(words)?;
        let served = self.served.iter().find_map(|option| value_of(words, option));
        // llama-server takes several aliases with commas between.
        let served =
            served.and_then(|names| names.split(|byte| *byte == b',').next()).and_then(name);
        served.or_else(|| {
            let option = self.model.iter().find_map(|option| value_of(words, option));
            let positional = || match &self.grammar {
                Some(grammar) => grammar.positional(words),
                None => first_plain(words),
            };
            let model = option.or_else(|| positional().filter(|_| self.positional))?;
            called(model, blobs)
        })
    }
}

impl Grammar {
    /// The first word that is neither an option nor what one takes.
    fn positional<'a>(&self, words: &'a [Vec<u8>]) -> Option<&'a [u8]> {
        let is_one_of = |word: &[u8], list: &[&str]| list.iter().any(|one| is_option(word, one));
        let is_plain = |word: &&[u8]| !word.starts_with(b"-") || is_negative(word);
        let mut rest = words.iter().map(Vec::as_slice).peekable();
        while let Some(word) = rest.next() {
            if word == b"--" {
                return rest.next().filter(|word| !word.is_empty());
            }
            if !word.starts_with(b"-") {
                return Some(word).filter(|word| !word.is_empty());
            }
            if is_attached(word) {
                continue;
            }
            if word.starts_with(b"--no-") || is_one_of(word, self.flags) {
                // Some were no flags once, and said so in a word.
                rest.next_if(|next| {
                    [&b"true"[..], b"false"].iter().any(|it| next.eq_ignore_ascii_case(it))
                });
            } else if is_one_of(word, self.lists) {
                while rest.next_if(is_plain).is_some() {}
            } else if is_one_of(word, self.one_or_many) {
                rest.next_if(is_plain);
                // Nobody can tell a second key from a model, unless it can be nothing but a model.
                if let Some(next) = rest.next_if(is_plain) {
                    let is_last = rest.peek().is_none_or(|word| !is_plain(word));
                    return Some(next).filter(|next| is_last && is_of_a_hub(next));
                }
            } else {
                rest.next_if(is_plain);
            }
        }
        None
    }
}

/// Whether an option has its value in its own word: `--port=8000`, and vLLM's `-O3`.
fn is_attached(word: &[u8]) -> bool {
    word.contains(&b'=') || (word.starts_with(b"-O") && word.len() > 2)
}

/// A number below zero is a value (argparse, "Arguments containing -").
fn is_negative(word: &[u8]) -> bool {
    word.strip_prefix(b"-").and_then(|rest| rest.first()).is_some_and(u8::is_ascii_digit)
}

/// Whether it has the form `ORGANISATION/MODEL` (huggingface_hub, `validate_repo_id`), and not the look of a secret.
fn is_of_a_hub(word: &[u8]) -> bool {
    let is_part = |part: &[u8]| {
        part.first().is_some_and(u8::is_ascii_alphanumeric)
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    };
    let parts: Vec<&[u8]> = word.split(|byte| *byte == b'/').collect();
    parts.len() == 2 && parts.into_iter().all(is_part) && *redact_word(word) == *word
}

/// The first word if it is no option. Options with their value attached may stand before it; behind any
/// other, a word may be that option's value, and that may be a key.
fn first_plain(words: &[Vec<u8>]) -> Option<&[u8]> {
    let mut words = words.iter().skip_while(|word| word.starts_with(b"--") && word.contains(&b'='));
    words.next().map(Vec::as_slice).filter(|word| !word.starts_with(b"-") && !word.is_empty())
}

/// The words after the one that names the program: an interpreter's own options are not its.
fn words_of<'a>(program: &[u8], argv: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
    let names = |word: &Vec<u8>| {
        word.strip_suffix(program).is_some_and(|before| matches!(before, [] | [.., b'/']))
            // `-mMODULE`, `-umMODULE`.
            || word.starts_with(b"-") && word.ends_with(program)
    };
    let place = argv.iter().position(names).unwrap_or_default();
    argv.get(place.saturating_add(1)..).unwrap_or_default()
}

/// The value of an option's last occurrence, attached by `=` or in the next word.
fn value_of<'a>(words: &'a [Vec<u8>], option: &str) -> Option<&'a [u8]> {
    let last = words.iter().rposition(|word| {
        let named = word.split(|byte| *byte == b'=').next().unwrap_or(word);
        is_option(named, option) && (named.len() == word.len() || option.starts_with("--"))
    })?;
    let word = words.get(last)?;
    let attached = word
        .iter()
        .position(|byte| *byte == b'=')
        .and_then(|equals| word.get(equals.checked_add(1)?..));
    let value = attached.or_else(|| {
        let next = words.get(last.checked_add(1)?)?;
        (!next.starts_with(b"-")).then_some(next)
    });
    value.filter(|value| !value.is_empty())
}

fn is_option(word: &[u8], option: &str) -> bool {
    let dashed = |byte: &u8| if *byte == b'_' { b'-' } else { *byte };
    word.starts_with(b"-")
        && word.len() == option.len()
        && word.iter().map(dashed).eq(option.bytes())
}

/// Endings of files of weights.
const ENDINGS: [&[u8]; 9] = [
    b".gguf",
    b".ggml",
    b".bin",
    b".safetensors",
    b".ckpt",
    b".pth",
    b".pt",
    b".onnx",
    b".llamafile",
];

/// What a path, address or id of a model is called.
fn called(model: &[u8], blobs: &Blobs) -> Option<Arc<str>> {
    if let Some(id) = model.strip_prefix(b"HF://").or_else(|| model.strip_prefix(b"hf://")) {
        return name(id);
    }
    let mut model = path_of(model)?;
    while let Some(shorter) = model.strip_suffix(b"/") {
        model = shorter;
    }
    let file = base_name(model);
    if let Some(digest) = file.strip_prefix(b"sha256-").filter(|digest| is_sha256(digest)) {
        let digest = std::str::from_utf8(digest).ok()?;
        return blobs
            .name_of(digest)
            .or_else(|| Some(format!("sha256-{}", digest.get(..12)?).into()));
    }
    if let Some(id) = model.split(|byte| *byte == b'/').find_map(hub_id) {
        return name(id.as_bytes());
    }
    let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(*ending));
    // `ORGANISATION/MODEL` is an id; everything else with a slash is a path.
    let is_id = stem.is_none()
        && !model.starts_with(b"/")
        && !model.starts_with(b".")
        && !model.starts_with(b"~")
        && model.split(|byte| *byte == b'/').count() == 2;
    let stem = if is_id { model } else { without_shard(stem.unwrap_or(file)) };
    name(stem).filter(|name| !matches!(name.as_ref(), "." | ".."))
}

/// The path of an address, without what may be a key: the user before its host, what follows a `?`. What is
/// no address is a path as it is.
fn path_of(model: &[u8]) -> Option<&[u8]> {
    let Some(place) = model.windows(3).position(|part| part == b"://") else { return Some(model) };
    let address = model.get(place.checked_add(3)?..)?.split(|byte| b"?#".contains(byte)).next()?;
    let slash = address.iter().position(|byte| *byte == b'/')?;
    address.get(slash..)
}

/// `models--ORGANISATION--MODEL`, a folder of the Hugging Face cache (huggingface_hub, "Understand caching").
fn hub_id(folder: &[u8]) -> Option<String> {
    let id = std::str::from_utf8(folder.strip_prefix(b"models--")?).ok()?;
    Some(id.replacen("--", "/", 1))
}

/// `NAME-00001-of-00003` is `NAME` (llama.cpp, tools/gguf-split; safetensors the same).
fn without_shard(stem: &[u8]) -> &[u8] {
    let Some(place) = stem.len().checked_sub(15) else { return stem };
    let Some((before, shard)) = stem.split_at_checked(place) else { return stem };
    let digits = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let is_shard = shard.starts_with(b"-")
        && digits(shard.get(1..6))
        && shard.get(6..10) == Some(b"-of-")
        && digits(shard.get(10..));
    if is_shard && !before.is_empty() { before } else { stem }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Text that can be shown, of a sensible length.
fn name(bytes: &[u8]) -> Option<Arc<str>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let shown = !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && !text.chars().any(crate::escape::is_unprintable);
    shown.then(|| text.into())
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
