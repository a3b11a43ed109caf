use proptest::prelude::*;

use super::*;

#[test]
fn a_name_holds_no_secret() {
    let cases: [(&str, &[&[u8]], &str); 4] = [
        ("/usr/bin/python3", &[b"python3", b"/srv/--token=abc.py"], "--token=[redacted]"),
        (
            "/usr/bin/python3",
            &[b"gpu::worker[hf_AbCdEfGhIj0123456789abcdef]"],
            "gpu::worker[[redacted]]",
        ),
        ("/opt/hf_AbCdEfGhIj0123456789abcdef", &[b"x"], "[redacted]"),
        ("/usr/bin/python3", &[b"python3", b"-m", b"tokenizer.train"], "tokenizer.train"),
    ];
    for (filename, words, name) in cases {
        let program = Program::of(&content(filename, argv(words, ArgvState::Whole))).unwrap();
        assert_eq!(program.as_bytes(), name.as_bytes());
    }
}

fn argv(words: &[&[u8]], state: ArgvState) -> Argv {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(word);
        bytes.push(0);
    }
    let true_length = Some(u64::try_from(bytes.len()).unwrap());
    Argv { bytes: bytes.into(), true_length, state }
}

fn content(filename: &str, argv: Argv) -> ImageContent {
    ImageContent { argv, filename: Bytes::copy_from_slice(filename.as_bytes()), exe: None }
}

/// Words are separated by spaces; `·` stands for a space inside a word.
fn image(filename: &str, line: &str) -> ImageContent {
    let words: Vec<String> = line.split(' ').map(|word| word.replace('·', " ")).collect();
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    content(filename, argv(&words, ArgvState::Whole))
}

use ProgramKind::{
    Executable as E, Inline as I, Interpreter as N, Module as M, ParentsWorker as W, Script as S,
    Title as T,
};

#[rustfmt::skip]
const CASES: &[(&str, &str, &str, ProgramKind)] = &[
    // Programs that are their own executable.
    ("/usr/local/bin/ollama", "/usr/local/bin/ollama serve", "ollama", E),
    ("/usr/local/bin/ollama", "/usr/local/bin/ollama runner --model /root/.ollama/models/blobs/sha256-6a0746a1ec1a --port 40123", "ollama", E),
    ("/opt/llama.cpp/build/bin/llama-server", "./llama-server -m /models/qwen3.gguf -ngl 99 -c 32768", "llama-server", E),
    ("./llama-server", "./llama-server -m model.gguf", "llama-server", E),
    ("/usr/bin/whisper-cli", "whisper-cli -m ggml-large-v3.bin -f a.wav", "whisper-cli", E),
    ("/usr/bin/text-generation-launcher", "text-generation-launcher --model-id mistralai/Mistral-7B", "text-generation-launcher", E),
    ("/opt/tritonserver/bin/tritonserver", "tritonserver --model-repository=/models", "tritonserver", E),
    ("/usr/bin/ffmpeg", "ffmpeg -hwaccel cuda -i in.mp4 out.mp4", "ffmpeg", E),
    ("/usr/bin/gmx", "gmx mdrun -nb gpu -deffnm md", "gmx", E),
    ("/usr/lib/xorg/Xorg", "/usr/lib/xorg/Xorg vt2 -displayfd 3", "Xorg", E),
    ("/usr/bin/blender", "blender -b scene.blend -E CYCLES -f 1", "blender", E),
    ("/usr/bin/mpirun", "mpirun -np 8 python3 train.py", "mpirun", E),
    ("/usr/bin/srun", "srun --gres=gpu:1 python3 train.py", "srun", E),
    ("/root/.local/bin/uv", "uv run --with vllm vllm serve Qwen/Qwen3-8B", "uv", E),
    ("/usr/sbin/nginx", "nginx:·worker·process", "nginx", E),
    ("/usr/lib/postgresql/17/bin/postgres", "postgres:·checkpointer·", "postgres", E),
    ("/opt/app/server (deleted)", "/opt/app/server --gpu", "server", E),
    ("/memfd:runner (deleted)", "runner --x", "runner", E),
    ("/dev/fd/7", "hidden-job --gpu 0", "hidden-job", E),
    ("/usr/bin/bash", "-bash", "bash", N),
    // A name that only looks like a shell's with a version, and one that is.
    ("/opt/sh2", "./sh2 work --gpu 0", "sh2", E),
    ("/usr/bin/ksh93", "ksh93 /opt/nightly.ksh", "nightly.ksh", S),
    // Scripts started by their `#!` line: the kernel event has the script as file name …
    ("/venv/bin/vllm", "/venv/bin/python3 /venv/bin/vllm serve Qwen/Qwen3-8B --port 8000", "vllm", S),
    ("/venv/bin/torchrun", "/venv/bin/python /venv/bin/torchrun --nproc_per_node=8 train.py", "torchrun", S),
    ("/venv/bin/accelerate", "/venv/bin/python /venv/bin/accelerate launch train.py", "accelerate", S),
    ("./train.py", "/usr/bin/python3 ./train.py --epochs 3", "train.py", S),
    ("./run.sh", "/bin/bash ./run.sh", "run.sh", S),
    // … and procfs the interpreter.
    ("/usr/bin/python3.11", "/venv/bin/python3 /venv/bin/vllm serve Qwen/Qwen3-8B", "vllm", S),
    ("/root/.local/share/uv/python/cpython-3.12.9-linux-x86_64-gnu/bin/python3.12", "/venv/bin/python /venv/bin/whisper a.wav --model large-v3", "whisper", S),
    // Python.
    ("/usr/bin/python3", "python3 train.py --lr 1e-4", "train.py", S),
    ("/usr/bin/python3", "python3 -u train.py", "train.py", S),
    ("/usr/bin/python3", "python3 -uB -X dev -W ignore /srv/tts/server.py --port 5002", "server.py", S),
    ("/usr/bin/python3", "python3 -Xfrozen_modules=off -Wignore::UserWarning -O main.py", "main.py", S),
    ("/usr/bin/python3", "python3 --check-hash-based-pycs always app.py", "app.py", S),
    ("/usr/bin/python3", "python3 -- app.py", "app.py", S),
    ("/usr/bin/python3", "python3 -m vllm.entrypoints.openai.api_server --model m", "vllm.entrypoints.openai.api_server", M),
    ("/usr/bin/python3", "python3 -um sglang.launch_server --model-path m", "sglang.launch_server", M),
    ("/usr/bin/python3", "python3 -mtorch.distributed.run train.py", "torch.distributed.run", M),
    ("/opt/conda/bin/python3.11", "python -m uvicorn app:app --workers 4", "uvicorn", M),
    ("/usr/bin/python3.13t", "python3.13t -m xtts_api_server", "xtts_api_server", M),
    ("/usr/bin/python3", "python3 -c import·torch;·torch.zeros(1).cuda()", "python -c", I),
    ("/usr/bin/python3.12", "/usr/bin/python3.12 -uc print(1) not_a_script.py", "python -c", I),
    ("/usr/bin/python3", "python3 -c from·multiprocessing.spawn·import·spawn_main;·spawn_main(tracker_fd=5,·pipe_handle=7) --multiprocessing-fork", "python -c", W),
    ("/usr/bin/python3", "python3 -c from·multiprocessing.resource_tracker·import·main;main(4)", "python -c", W),
    ("/usr/bin/python3", "python3", "python3", N),
    ("/usr/bin/python3", "python3 -", "python3", N),
    ("/usr/bin/python3", "python3 -i", "python3", N),
    ("/usr/bin/python3.12", "VLLM::EngineCore", "VLLM::EngineCore", T),
    ("/usr/bin/python3.12", "ray::IDLE", "ray::IDLE", T),
    ("/usr/bin/python3.12", "gunicorn:·worker·[app]", "gunicorn", T),
    ("/usr/bin/python3.12", "[celeryd:·celery@gpu1:MainProcess]·-active-", "celeryd", T),
    ("/usr/bin/python3", "python3 /srv/comfy/__main__.py", "comfy/__main__.py", S),
    ("/usr/bin/python3", "python3 /srv/app.pyz serve", "app.pyz", S),
    ("/usr/bin/python3", "python3 /srv/ComfyUI/main.py --listen", "main.py", S),
    ("/usr/bin/python3", "python3 launch.py --xformers", "launch.py", S),
    ("/usr/bin/pypy3.10", "pypy3.10 sim.py", "sim.py", S),
    ("/opt/conda/bin/python", "/opt/conda/bin/python /opt/conda/bin/jupyter-lab --ip 0.0.0.0", "jupyter-lab", S),
    ("/opt/conda/bin/python", "/opt/conda/bin/python -m ipykernel_launcher -f /root/.local/kernel.json", "ipykernel_launcher", M),
    ("/venv/bin/python", "/venv/bin/python -u /venv/lib/python3.12/site-packages/deepspeed/launcher/launch.py --world_info=x train.py", "launch.py", S),
    // Shells.
    ("/bin/bash", "bash -c python3·train.py", "sh -c", I),
    ("/bin/bash", "bash -lc module·load·cuda·&&·./a.out", "sh -c", I),
    ("/bin/bash", "bash -euxo pipefail -c ./a.out", "sh -c", I),
    ("/bin/bash", "/bin/bash /var/spool/slurmd/job00123/slurm_script", "slurm_script", S),
    ("/bin/bash", "bash --norc --rcfile /dev/null -eo pipefail +x run.sh a b", "run.sh", S),
    ("/bin/sh", "sh -s", "sh", N),
    ("/bin/dash", "/bin/sh /docker-entrypoint.sh postgres", "docker-entrypoint.sh", S),
    ("/bin/busybox", "sh /entry.sh", "entry.sh", S),
    ("/bin/busybox", "busybox sh -c ./a.out", "sh -c", I),
    ("/bin/busybox", "sleep 5", "sleep", E),
    ("/usr/bin/fish", "fish -C set·-x·A·1 run.fish", "run.fish", S),
    // Node and its kin.
    ("/usr/bin/node", "node --max-old-space-size=4096 -r dotenv/config dist/server.js", "server.js", S),
    ("/usr/bin/node", "node -e console.log(1)", "node -e", I),
    ("/usr/bin/deno", "deno run -A --import-map map.json main.ts", "main.ts", S),
    ("/usr/bin/deno", "deno task dev", "deno task", E),
    ("/usr/bin/bun", "bun --cwd /srv run index.ts", "index.ts", S),
    ("/usr/bin/bun", "bun index.ts", "index.ts", S),
    // Others.
    ("/usr/bin/ruby3.1", "ruby -W0 -I lib -rjson worker.rb", "worker.rb", S),
    ("/usr/bin/perl", "perl -lane print·$F[0] log", "perl -e", I),
    ("/usr/bin/perl", "perl -I lib -MCarp -w tool.pl", "tool.pl", S),
    ("/usr/bin/php8.4", "php -d memory_limit=1G -f job.php", "job.php", S),
    ("/usr/bin/php8.4", "php artisan queue:work", "artisan", S),
    ("/usr/bin/lua5.4", "lua5.4 -e x=1 -l socket sim.lua", "sim.lua", S),
    ("/usr/bin/luajit", "luajit -e print(1)", "lua -e", I),
    ("/usr/lib/R/bin/exec/R", "/usr/lib/R/bin/exec/R --no-echo --no-restore --file=fit.R --args 3", "fit.R", S),
    ("/usr/lib/R/bin/exec/R", "R --no-save --args 3", "R", N),
    ("/usr/bin/Rscript", "Rscript --vanilla fit.R 3", "fit.R", S),
    ("/opt/julia/bin/julia", "julia -O3 -t auto --project=. --sysimage s.so sim.jl", "sim.jl", S),
    ("/opt/julia/bin/julia", "julia -e using·CUDA", "julia -e", I),
    ("/usr/bin/java", "java -Xmx8g -XX:+UseG1GC -jar /opt/app/server.jar --port 1", "server.jar", S),
    ("/usr/bin/java", "java -cp /opt/spark/jars/* -Xmx1g org.apache.spark.deploy.SparkSubmit --class X a.jar", "org.apache.spark.deploy.SparkSubmit", M),
    ("/usr/bin/java", "java --add-opens java.base/java.lang=ALL-UNNAMED @opts --module-path m -m app/com.x.Main", "app/com.x.Main", M),
    ("/usr/bin/dotnet", "dotnet exec --depsfile a.json App.dll", "App.dll", S),
    ("/usr/bin/dotnet", "dotnet run --project X", "dotnet run", E),
    ("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2 --library-path /opt/lib /opt/bin/namd3 in.conf", "namd3", E),
    ("/lib64/ld-linux-x86-64.so.2", "ld.so --argv0 python /opt/bin/python3.12 -m vllm.server", "vllm.server", M),
    // Names that only look like an interpreter's.
    ("/usr/bin/python-config", "python-config --libs", "python-config", E),
    ("/usr/bin/nodeman", "nodeman x.js", "nodeman", E),
    ("/usr/bin/shasum", "shasum file", "shasum", E),
    ("/usr/bin/javac", "javac A.java", "javac", E),
];

#[test]
fn real_command_lines_get_the_name_a_person_would_use() {
    assert!(CASES.len() >= 60);
    for (filename, line, name, kind) in CASES {
        let program = Program::of(&image(filename, line)).unwrap();
        assert_eq!(
            (program.to_string().as_str(), program.kind()),
            (*name, *kind),
            "of {filename} with {line}"
        );
    }
}

#[test]
fn every_interpreters_name_belongs_to_one_family() {
    let names: Vec<_> = grammar::GRAMMARS.iter().flat_map(|grammar| grammar.names).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), distinct.len());
}

#[test]
fn arguments_that_were_not_captured_leave_the_file_name_and_are_not_guessed() {
    for state in [ArgvState::Shed, ArgvState::Unreadable] {
        let lost = || Argv { bytes: Bytes::new(), true_length: Some(90), state };
        let of = |filename: &str| Program::of(&content(filename, lost())).unwrap();
        assert_eq!(of("/usr/bin/python3").kind(), ProgramKind::Interpreter);
        assert_eq!(of("/usr/bin/python3").as_bytes(), b"python3");
        assert_eq!(of("/venv/bin/vllm").as_bytes(), b"vllm");
        assert_eq!(Program::of(&content("", lost())), None);
    }
}

#[test]
fn a_script_name_cut_in_half_is_no_script_name() {
    let bytes = Bytes::from_static(b"python3\0-u\0/srv/very_long_na");
    let cut = Argv { bytes, true_length: Some(90), state: ArgvState::Truncated };
    assert_eq!(argv_words(&cut), [b"python3".as_slice(), b"-u"]);
    assert_eq!(argv_cut_word(&cut), Some(b"/srv/very_long_na".as_slice()));
    let program = Program::of(&content("/usr/bin/python3", cut)).unwrap();
    assert_eq!((program.as_bytes(), program.kind()), (b"python3".as_slice(), N));
}

#[test]
fn empty_words_are_words() {
    let whole = argv(&[b"a", b"", b"\n\xff", b""], ArgvState::Whole);
    assert_eq!(argv_words(&whole), [b"a".as_slice(), b"", b"\n\xff", b""]);
    assert_eq!(argv_words(&argv(&[], ArgvState::Whole)), Vec::<&[u8]>::new());
}

#[test]
fn a_program_keeps_its_bytes_and_shows_them_escaped() {
    let words: &[&[u8]] = &[b"python3", b"/srv/\x1b[2J\xff.py"];
    let program = Program::of(&content("/usr/bin/python3", argv(words, ArgvState::Whole))).unwrap();
    assert_eq!(program.as_bytes(), b"\x1b[2J\xff.py");
    assert_eq!(program.to_string(), r"\x1b[2J\xff.py");
}

proptest! {
    #[test]
    fn any_bytes_give_a_program_or_none(
        filename in prop::collection::vec(any::<u8>(), 0..24),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        interpreter in prop::option::of(0..grammar::GRAMMARS.len()),
        truncated in any::<bool>(),
    ) {
        let filename = interpreter.map_or(filename, |place| {
            grammar::GRAMMARS[place].names[0].as_bytes().to_vec()
        });
        let state = if truncated { ArgvState::Truncated } else { ArgvState::Whole };
        let words: Vec<&[u8]> = bytes.split(|byte| *byte < 40).collect();
        let mut argv = argv(&words, ArgvState::Whole);
        argv.state = state;
        let content = ImageContent { argv, filename: filename.into(), exe: None };
        if let Some(program) = Program::of(&content) {
            prop_assert!(!program.as_bytes().is_empty());
        }
    }
}
