use proptest::prelude::*;

use super::*;
use crate::identity::{ImageContent, Program};
use crate::kernel::{Argv, ArgvState};

const BLOB: &str = "3c168af1dea0a414299c7d9077e100ac763370e5a98b3c53801a958a47f0a5db";

/// Through the program's name, as callers have it.
fn model(file: &str, words: &[Vec<u8>]) -> Option<Arc<str>> {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(word);
        bytes.push(0);
    }
    let true_length = u64::try_from(bytes.len()).ok();
    let argv = Argv { bytes: bytes.into(), true_length, state: ArgvState::Whole };
    let filename = file.as_bytes().to_vec().into();
    let program = Program::of(&ImageContent { argv, filename, exe: None });
    model_of(program.as_ref().map(Program::as_bytes), words, &Blobs::default())
}

/// Words are separated by spaces; `·` stands for a space inside a word.
fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.replace('·', " ").into_bytes()).collect()
}

const PY: &str = "/usr/bin/python3.11";

/// File, command line, model. Above each group where its lines are from.
#[rustfmt::skip]
const LINES: &[(&str, &str, Option<&str>)] = &[
    // ggml-org/llama.cpp, tools/server/README.md and docs.
    ("/opt/llama.cpp/llama-server", "./llama-server -m models/7B/ggml-model.gguf -c 2048", Some("ggml-model")),
    ("/usr/bin/llama-server", "llama-server -m model.gguf --port 8080", Some("model")),
    ("/usr/bin/llama-server", "llama-server -hf ggml-org/gemma-3-1b-it-GGUF", Some("ggml-org/gemma-3-1b-it-GGUF")),
    ("/usr/bin/llama-server", "llama-server --hf-repo ggml-org/GLM-4.7-Flash-GGUF:Q4_K_M -ngl 99", Some("ggml-org/GLM-4.7-Flash-GGUF:Q4_K_M")),
    ("/app/llama-server", "/app/llama-server --model /models/qwen3-32b-q4_k_m.gguf --alias qwen3,default --host 0.0.0.0", Some("qwen3")),
    ("/app/llama-server", "/app/llama-server --model /models/a.gguf -a gpt-4-local", Some("gpt-4-local")),
    ("/usr/bin/llama-server", "llama-server -mu https://huggingface.co/ggml-org/models/resolve/main/tinyllamas/stories260K.gguf?download=true", Some("stories260K")),
    ("/usr/bin/llama-server", "llama-server -dr gemma3", Some("gemma3")),
    ("/usr/bin/llama-cli", "llama-cli -m model.gguf -p I·believe·the·meaning·of·life·is -n 128", Some("model")),
    ("/usr/bin/llama-bench", "llama-bench -m models/7B/ggml-model-q4_0.gguf -m models/13B/ggml-model-q4_0.gguf", Some("ggml-model-q4_0")),
    ("/usr/bin/llama-server", "llama-server -m /srv/Qwen3-235B-A22B-Q4_K_M-00001-of-00003.gguf", Some("Qwen3-235B-A22B-Q4_K_M")),
    ("/usr/bin/llama-server", "llama-server -m /root/.cache/huggingface/hub/models--unsloth--Qwen3-8B-GGUF/snapshots/0f1e/Qwen3-8B-Q4_K_M.gguf", Some("unsloth/Qwen3-8B-GGUF")),
    ("/usr/bin/llama-server", "llama-server --port 8080 --models-dir /models", None),
    ("/usr/bin/llama-run", "llama-run --verbose --ngl 99 hf://ggml-org/gemma-3-1b-it-GGUF hello", Some("ggml-org/gemma-3-1b-it-GGUF")),
    ("/usr/bin/llama-run", "llama-run -c 2048 /models/a.gguf", Some("a")),
    ("/usr/bin/llama-run", "llama-run --ngl 99", None),
    // ollama: its log's line `starting runner`, and ps on hosts with 0.30 and with 0.4.
    ("/usr/local/bin/ollama", "/usr/local/bin/ollama runner --ollama-engine --model /usr/share/ollama/.ollama/models/blobs/sha256-90a618fe6ff21b09ca968df959104eb650658b0bef0faef785c18c2795d993e3 --port 43263", Some("sha256-90a618fe6ff2")),
    ("/usr/local/bin/ollama", "/usr/local/bin/ollama runner --ollama-engine --port 38321", None),
    ("/usr/local/bin/ollama", "ollama runner --mlx-engine --model qwen3-coder", Some("qwen3-coder")),
    ("/usr/local/lib/ollama/llama-server", "/usr/local/lib/ollama/llama-server --model /usr/share/ollama/.ollama/models/blobs/sha256-3c168af1dea0a414299c7d9077e100ac763370e5a98b3c53801a958a47f0a5db --port 46241 --host 127.0.0.1 --no-webui --offline -c 8192", Some("sha256-3c168af1dea0")),
    ("/tmp/ollama1/runners/cuda_v12/ollama_llama_server", "/tmp/ollama1/runners/cuda_v12/ollama_llama_server --model /root/.ollama/models/blobs/sha256-dde5aa3fc5ffc17176b5e8bdc82f587b24b2678c6c66101bf7da77af9f7ccdff --ctx-size 8192", Some("sha256-dde5aa3fc5ff")),
    ("/usr/local/bin/ollama", "/usr/local/bin/ollama serve", None),
    ("/usr/local/bin/ollama", "ollama run llama3.2 --model x", None),
    // vllm-project/vllm, docs/getting_started/quickstart.md and docs/serving.
    ("/venv/bin/vllm", "/venv/bin/python3 /venv/bin/vllm serve Qwen/Qwen2.5-1.5B-Instruct", Some("Qwen/Qwen2.5-1.5B-Instruct")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve /models/Qwen3-8B/ --served-model-name qwen3 qwen3-8b --port 8000", Some("qwen3")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --model meta-llama/Llama-3.1-8B-Instruct --api-key k", Some("meta-llama/Llama-3.1-8B-Instruct")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --port=8000 meta-llama/Llama-3.1-8B-Instruct", Some("meta-llama/Llama-3.1-8B-Instruct")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --api-key secret other-secret", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --config config.yaml", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --port 8000 mist/Pos", Some("mist/Pos")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --port 8000 --api-key K mistralai/M", Some("mistralai/M")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --api-key K --port 8000 mistralai/M", Some("mistralai/M")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --api-key K mistralai/M Qwen/Q --port 1", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --api-key sk-1 ghp/ghp_0123456789abcdefABCDEF0123456789abcd", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --api-key K --port 8000", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --enforce-eager --trust_remote_code -tp 2 /models/Qwen3-8B --seed -1", Some("Qwen3-8B")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --seed -1 -O3 --no-enable-prefix-caching --enable-chunked-prefill False a/b", Some("a/b")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --lora-modules a=/x b=/y --port 8000 a/b", Some("a/b")),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --lora-modules a=/x /y", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --no-such-option-yet -- a/b", Some("a/b")),
    // An option that is not known takes the word behind it, and hides a model at worst.
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --some-new-flag a/b --port 8000", None),
    (PY, "/venv/bin/python3 /venv/bin/vllm serve --port 8000", None),
    (PY, "python3 -m vllm.entrypoints.openai.api_server --model facebook/opt-125m --host 0.0.0.0", Some("facebook/opt-125m")),
    (PY, "python -um vllm.entrypoints.openai.api_server --model=/data/models/DeepSeek-R1 --served_model_name=deepseek-r1", Some("deepseek-r1")),
    (PY, "python -m vllm.entrypoints.cli.main serve zai-org/AutoGLM-Phone-9B", Some("zai-org/AutoGLM-Phone-9B")),
    (PY, "/venv/bin/python3 /venv/bin/vllm bench latency --model Qwen/Qwen3-0.6B", Some("Qwen/Qwen3-0.6B")),
    (PY, "VLLM::EngineCore", None),
    (PY, "VLLM::Worker_TP0", None),
    // huggingface/text-generation-inference, README.md, and ps in its container; text-embeddings-inference, docs.
    ("/usr/local/bin/text-generation-launcher", "text-generation-launcher --model-id mistralai/Mistral-7B-Instruct-v0.2", Some("mistralai/Mistral-7B-Instruct-v0.2")),
    ("/usr/local/bin/text-generation-launcher", "text-generation-launcher --model-id /data/llava-v1.6-vicuna-7b-hf/ --hostname 0.0.0.0", Some("llava-v1.6-vicuna-7b-hf")),
    ("/usr/local/bin/text-generation-launcher", "text-generation-launcher --json-output", None),
    ("/opt/conda/bin/python3.10", "/opt/conda/bin/python3.10 /opt/conda/bin/text-generation-server serve google/flan-t5-small --uds-path /tmp/text-generation-server --logger-level INFO", Some("google/flan-t5-small")),
    ("/opt/conda/bin/python3.10", "/opt/conda/bin/python3.10 /opt/conda/bin/text-generation-server download-weights google/flan-t5-small", None),
    ("/opt/conda/bin/python3.10", "/opt/conda/bin/python3.10 /opt/conda/bin/text-generation-server serve --sharded --revision main google/flan-t5-small", Some("google/flan-t5-small")),
    ("/opt/conda/bin/python3.10", "/opt/conda/bin/python3.10 /opt/conda/bin/text-generation-server serve --no-json-output --uds-path /tmp/x", None),
    ("/usr/local/bin/text-embeddings-router", "text-embeddings-router --model-id BAAI/bge-large-en-v1.5 --port 8080", Some("BAAI/bge-large-en-v1.5")),
    // sgl-project/sglang, docs/get_started and its warning on the old entry.
    (PY, "python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-8B-Instruct --host 0.0.0.0 --log-level warning", Some("meta-llama/Meta-Llama-3.1-8B-Instruct")),
    (PY, "python3 -m sglang.launch_server --model-path /data/models/Alpamayo-R1-10B-Origin --tokenizer-path Qwen/Qwen3-VL-8B-Instruct --tp 1", Some("Alpamayo-R1-10B-Origin")),
    ("/venv/bin/sglang", "/venv/bin/python3 /venv/bin/sglang serve --model-path LiquidAI/LFM2-8B-A1B --tool-call-parser lfm2", Some("LiquidAI/LFM2-8B-A1B")),
    (PY, "python3 -m sglang.launch_server --trust-remote-code --api-key k --model-path a/b --tp 1", Some("a/b")),
    (PY, "python3 -m sglang.launch_server --port 30000 a/b", None),
    (PY, "sglang::scheduler_TP0", None),
    // openai/whisper, README.md; ggml-org/whisper.cpp, README.md; rhasspy/wyoming-faster-whisper, README.md; speaches, docs.
    (PY, "/usr/bin/python3 /usr/local/bin/whisper audio.flac audio.mp3 audio.wav --model turbo", Some("turbo")),
    (PY, "/usr/bin/python3 /usr/local/bin/whisper japanese.wav --language Japanese --model large-v3", Some("large-v3")),
    (PY, "/usr/bin/python3 /usr/local/bin/whisper japanese.wav --language Japanese", None),
    ("/opt/whisper.cpp/build/bin/whisper-cli", "./build/bin/whisper-cli -m models/ggml-base.en.bin -f samples/jfk.wav", Some("ggml-base.en")),
    ("/opt/whisper.cpp/build/bin/whisper-server", "whisper-server --model /models/ggml-large-v3-turbo.bin --port 8081", Some("ggml-large-v3-turbo")),
    (PY, "python -m wyoming_faster_whisper --model tiny-int8 --language en --uri tcp://0.0.0.0:10300", Some("tiny-int8")),
    (PY, "python -m uvicorn --factory --host 0.0.0.0 speaches.main:create_app", None),
    // huggingface/diffusers, examples/text_to_image/README.md; transformers, examples/pytorch; Comfy-Org/ComfyUI, README.md.
    (PY, "/venv/bin/python -u train_text_to_image.py --pretrained_model_name_or_path=CompVis/stable-diffusion-v1-4 --resolution=512", Some("CompVis/stable-diffusion-v1-4")),
    (PY, "python train_dreambooth_lora_flux.py --pretrained_model_name_or_path black-forest-labs/FLUX.1-dev", Some("black-forest-labs/FLUX.1-dev")),
    (PY, "python run_clm.py --model_name_or_path openai-community/gpt2 --do_train", Some("openai-community/gpt2")),
    (PY, "python main.py --listen 0.0.0.0 --port 8188", None),
    // Mozilla-Ocho/llamafile, README.md; LostRuins/koboldcpp, README.md and its wiki.
    ("/srv/Qwen2.5-0.5B-Instruct-Q4_K_M.llamafile", "./Qwen2.5-0.5B-Instruct-Q4_K_M.llamafile --server --nobrowser --port 8080", Some("Qwen2.5-0.5B-Instruct-Q4_K_M")),
    ("/usr/local/bin/llamafile-0.9.3", "llamafile-0.9.3 -m weights/mistral-7b-instruct-v0.2.Q4_0.gguf -ngl 999", Some("mistral-7b-instruct-v0.2.Q4_0")),
    (PY, "python koboldcpp.py --model KobbleTiny-Q4_K.gguf", Some("KobbleTiny-Q4_K")),
    ("/opt/koboldcpp/koboldcpp-linux-x64", "/opt/koboldcpp/koboldcpp-linux-x64 --model /models/llama3-8b.gguf --port 5001", Some("llama3-8b")),
    // turboderp-org/exllamav2, README.md; theroyallab/tabbyAPI, docs; oobabooga/text-generation-webui, README.md.
    (PY, "python test_inference.py -m /data/models/gptq/TheBloke_Llama-2-7B-GPTQ -ps", Some("TheBloke_Llama-2-7B-GPTQ")),
    (PY, "python3 main.py --model-name Llama-3.1-8B-exl2 --host 0.0.0.0", Some("Llama-3.1-8B-exl2")),
    (PY, "python server.py --model Qwen3-8B.gguf --api", Some("Qwen3-8B")),
    // InternLM/lmdeploy, docs/en/llm/api_server.md; NVIDIA/TensorRT-LLM, docs; mlc-ai/mlc-llm, docs/deploy/rest.rst.
    (PY, "/venv/bin/python3 /venv/bin/lmdeploy serve api_server internlm/Intern-S1 --tp 8 --cp 2", Some("internlm/Intern-S1")),
    (PY, "/venv/bin/python3 /venv/bin/lmdeploy serve api_server /root/models/internlm2-chat-7b --server-name 127.0.0.1 --model-name internlm2", Some("internlm2")),
    (PY, "/usr/bin/python3 /usr/local/bin/trtllm-serve TinyLlama/TinyLlama-1.1B-Chat-v1.0", Some("TinyLlama/TinyLlama-1.1B-Chat-v1.0")),
    (PY, "/usr/bin/python3 /usr/local/bin/trtllm-serve serve LGAI-EXAONE/EXAONE-4.0-1.2B --backend pytorch", Some("LGAI-EXAONE/EXAONE-4.0-1.2B")),
    (PY, "/usr/bin/python3 /usr/local/bin/trtllm-serve serve --backend pytorch", None),
    (PY, "/usr/bin/python3 /usr/local/bin/trtllm-serve disaggregated -c disagg_config.yaml", None),
    (PY, "python3 -m mlc_llm serve HF://mlc-ai/Llama-3-8B-Instruct-q4f16_1-MLC --device cuda", Some("mlc-ai/Llama-3-8B-Instruct-q4f16_1-MLC")),
    // PygmalionAI/aphrodite-engine, README.md; EricLBuehler/mistral.rs, README.md; abetlen/llama-cpp-python, docs/server.md.
    (PY, "/venv/bin/python3 /venv/bin/aphrodite run Qwen/Qwen3-0.6B", Some("Qwen/Qwen3-0.6B")),
    ("/usr/local/bin/mistralrs-server", "./mistralrs-server --port 1234 plain -m Qwen/Qwen2.5-Coder-7B-Instruct", Some("Qwen/Qwen2.5-Coder-7B-Instruct")),
    ("/usr/local/bin/mistralrs-server", "mistralrs-server --port 8080 gguf -m /srv/models -f Qwen3-Coder-30B-A3B-Instruct-Q5_K_M.gguf", Some("Qwen3-Coder-30B-A3B-Instruct-Q5_K_M")),
    (PY, "python3 -m llama_cpp.server --model models/Phi-3.1-mini-4k-instruct-Q4_K_M.gguf --n_ctx=4096", Some("Phi-3.1-mini-4k-instruct-Q4_K_M")),
    // ModelTC/lightllm, README.md; lm-sys/FastChat, README.md; michaelfeil/infinity, README.md.
    (PY, "python -m lightllm.server.api_server --model_dir /srv/Llama-2-7b-chat --tp 2", Some("Llama-2-7b-chat")),
    (PY, "python3 -m fastchat.serve.model_worker --model-path lmsys/vicuna-7b-v1.5", Some("lmsys/vicuna-7b-v1.5")),
    (PY, "/venv/bin/python3 /root/infinity_venv/bin/infinity_emb v2 --model-id BAAI/bge-reranker-v2-m3 --served-model-name rerank --device cuda", Some("rerank")),
    // Programs that are no runners: `-m` and `--model` mean something else.
    (PY, "python3 -m http.server", None),
    (PY, "python3 train.py --model 3 -m fast", None),
    ("/usr/bin/nvidia-smi", "nvidia-smi dmon --model x", None),
];

#[test]
fn command_lines_of_the_world_name_their_models() {
    let mut wrong = Vec::new();
    for (file, line, wanted) in LINES {
        let found = model(file, &words(line));
        if found.as_deref() != *wanted {
            wrong.push(format!("{found:?}, wanted {wanted:?}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(LINES.iter().filter(|(.., model)| model.is_some()).count() >= 40);
}

#[test]
fn a_blob_has_the_name_of_its_manifest() {
    let blobs = Blobs::of(&[(BLOB, "qwen3:8b")]);
    let argv = words(&format!("ollama runner --model /root/.ollama/models/blobs/sha256-{BLOB}"));
    assert_eq!(model_of(Some(b"ollama"), &argv, &blobs).as_deref(), Some("qwen3:8b"));
    // Of the newer server, and where the program is not known.
    let argv = words(&format!("/usr/lib/ollama/llama-server --model=/x/blobs/sha256-{BLOB}"));
    assert_eq!(model_of(None, &argv, &blobs).as_deref(), Some("qwen3:8b"));
    // What merely looks like one is a file.
    let argv = words(&format!("llama-server -m /x/sha256-{}", &BLOB[1..]));
    let name = format!("sha256-{}", &BLOB[1..]);
    assert_eq!(model_of(None, &argv, &blobs).as_deref(), Some(name.as_str()));
}

#[test]
fn what_is_no_name_is_none() {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    for model in [
        "",
        "/",
        ".",
        "../",
        "-c",
        "a\x1b[2J",
        &long,
        "models--",
        "/m/models--/x",
        "HF://",
        "https://h/?a",
        // A key in an address is no name.
        "https://user:key@host",
        "https://user:key@host/",
        "s3://bucket?key=a/b",
    ] {
        let argv = ["llama-server", "-m", model].map(|word| word.as_bytes().to_vec());
        assert_eq!(model_of(None, &argv, &Blobs::default()), None, "{model}");
    }
    let argv = [b"llama-server".to_vec(), b"-m".to_vec(), b"/m/\xff.gguf".to_vec()];
    assert_eq!(model_of(None, &argv, &Blobs::default()), None);
    assert_eq!(model_of(None, &[], &Blobs::default()), None);
    assert_eq!(model_of(Some(b"llama-server"), &argv[..2], &Blobs::default()), None);
    let argv = words("llama-server -mu https://u:k@host/m/x.gguf?key=a/b");
    assert_eq!(model_of(None, &argv, &Blobs::default()).as_deref(), Some("x"));
    // The last of several counts, and none is taken from an option that only begins the same.
    let argv = words("llama-server -m a.gguf --model-draft d.gguf -m b.gguf");
    assert_eq!(model_of(None, &argv, &Blobs::default()).as_deref(), Some("b"));
}

proptest! {
    #[test]
    fn no_arguments_panic_and_every_name_can_be_shown(
        program in prop::sample::select(&["vllm", "ollama", "llama-server", "x.llamafile", "trtllm-serve", "a"][..]),
        argv in prop::collection::vec(prop_oneof![
            prop::sample::select(&["serve", "runner", "-m", "--model", "--model=", "--alias", "/", "a/b", "models--a--b",
                "x-00001-of-00002.gguf", "https://h/x?y", "sha256-", "--served_model_name=n"][..])
                .prop_map(|word| word.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..20),
        ], 0..8),
    ) {
        let name = model_of(Some(program.as_bytes()), &argv, &Blobs::default());
        if let Some(name) = name {
            prop_assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
            prop_assert!(!name.chars().any(crate::escape::is_unprintable));
        }
    }
}
