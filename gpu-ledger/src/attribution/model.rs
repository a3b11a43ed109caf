//! Which model a runner served.
//!
//! Purpose: the model's name from the arguments of the program that loaded it. May touch: nothing. May not:
//! guess; a default that the arguments do not name is not read, nor one from the environment or a file.

use std::sync::Arc;

use super::ollama::{Blobs, is_sha256};

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
}

const fn runner(names: &'static [&'static str], model: &'static [&'static str]) -> Runner {
    Runner { names, command: &[], served: &[], model, positional: false }
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
}

const SERVED: &[&str] = &["--served-model-name"];

/// What is known, by whom it is documented. Options are written with dashes; underscores are the same, as
/// vLLM, SGLang and argparse's users mix them.
#[rustfmt::skip]
const RUNNERS: &[Runner] = &[
    // llama.cpp, tools/server/README.md and tools/*/README.md; ollama starts the same server since 0.30.
    runner(
        &["llama", "llama-server", "llama-cli", "llama-run", "llama-bench", "llama-batched-bench", "llama-embedding",
            "llama-mtmd-cli", "llama-perplexity", "llama-simple", "llama-speculative", "llama-tts"],
        &["-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"],
    ).served(&["--alias", "-a"]),
    // ollama, llm/server.go: its runner, in older ones a program of its own. Others of its commands are clients.
    runner(&["ollama"], &["--model", "-model"]).command(&["runner"]),
    runner(&["ollama_llama_server"], &["--model"]),
    // vLLM, docs/serving/openai_compatible_server.md; vllm/entrypoints/cli.
    runner(&["vllm", "vllm.entrypoints.cli.main"], &["--model"]).command(&["serve"]).served(SERVED).positional(),
    runner(&["vllm", "vllm.entrypoints.*"], &["--model"]).served(SERVED),
    // Text Generation Inference, docs/source/reference/launcher.md; server/text_generation_server/cli.py.
    runner(&["text-generation-launcher"], &["--model-id"]),
    runner(&["text-generation-server"], &[]).command(&["serve"]).positional(),
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
            let model = option.or_else(|| first_plain(words).filter(|_| self.positional))?;
            called(model, blobs)
        })
    }
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
