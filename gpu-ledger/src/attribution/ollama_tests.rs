use std::fs;

use super::*;

const A: &str = "633fc5be925f9a484b61d6f9b9a78021eeb462100bd557309f01ba84cac26adf";
const B: &str = "3c168af1dea0a414299c7d9077e100ac763370e5a98b3c53801a958a47f0a5db";

impl Blobs {
    /// Names as they would have been read.
    pub(in crate::attribution) fn of(names: &[(&str, &str)]) -> Self {
        let name = |(digest, name): &(&str, &str)| ((*digest).to_owned(), Arc::from(*name));
        Self { names: names.iter().map(name).collect(), left_out: 0 }
    }
}

/// A manifest as `ollama pull` leaves it.
fn manifest_of(digest: &str) -> String {
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",
        "config":{{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"sha256:23291dc44752bac878bf46ab0f2b8daf75c710060f80f1a351151c7be2f5ee0f","size":483}},
        "layers":[{{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{digest}","size":2176177120}},
        {{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:fa8235e5b48faca34e3ca98cf4f694ef08bd216d28b58071a1f85b1d50cb814d","size":1084}}]}}"#
    )
}

/// A folder of models with these manifests.
fn models(manifests: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in manifests {
        let path = root.path().join("manifests").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn weights_are_named_as_ollama_list_names_them() {
    let (a, b) = (manifest_of(A), manifest_of(B));
    for (path, name) in [
        ("registry.ollama.ai/library/phi3/mini", "phi3:mini"),
        ("registry.ollama.ai/library/phi3/latest", "phi3:latest"),
        ("registry.ollama.ai/me/phi3/mini", "me/phi3:mini"),
        ("hf.co/bartowski/Phi-3-GGUF/Q4_K_M", "hf.co/bartowski/Phi-3-GGUF:Q4_K_M"),
        ("host/library/phi3/mini", "host/library/phi3:mini"),
    ] {
        let root = models(&[(path, &a), ("registry.ollama.ai/library/other/1b", &b)]);
        let blobs = Blobs::read(root.path()).unwrap();
        assert_eq!(blobs.name_of(A).as_deref(), Some(name));
        assert_eq!(blobs.name_of(B).as_deref(), Some("other:1b"));
        assert_eq!(blobs.left_out(), 0);
    }
}

#[test]
fn of_several_names_one_is_taken_whatever_the_order() {
    let a = manifest_of(A);
    let path = |name: &str| format!("registry.ollama.ai/library/{name}");
    let names = ["llama3/latest", "llama3/8b", "assistant/latest", "llama3/8b-instruct"].map(path);
    let manifests: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), a.as_str())).collect();
    let blobs = Blobs::read(models(&manifests).path()).unwrap();
    assert_eq!(blobs.name_of(A).as_deref(), Some("llama3:8b"));
    let turned: Vec<_> = manifests.iter().rev().copied().collect();
    assert_eq!(Blobs::read(models(&turned).path()).unwrap(), blobs);
}

#[test]
fn what_is_no_manifest_is_left_out_and_counted() {
    let a = manifest_of(A);
    let large = format!("{a}{}", " ".repeat(1 << 18));
    let root = models(&[
        ("registry.ollama.ai/library/good/1b", &a),
        ("registry.ollama.ai/library/bad/1b", "{"),
        ("registry.ollama.ai/library/large/1b", &large),
        (".DS_Store", ""),
    ]);
    let library = root.path().join("manifests/registry.ollama.ai/library");
    fs::create_dir_all(library.join("folder/1b")).unwrap();
    fs::create_dir_all(library.join("pipe")).unwrap();
    let pipe = library.join("pipe/1b");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
    std::os::unix::fs::symlink(library.join("good"), library.join("link")).unwrap();
    std::os::unix::fs::symlink("/", root.path().join("manifests/root")).unwrap();
    let blobs = Blobs::read(root.path()).unwrap();
    assert_eq!(blobs.name_of(A).as_deref(), Some("good:1b"));
    // `{`, the large one, `.DS_Store`, the folder, the pipe, and two links.
    assert_eq!(blobs.left_out(), 7);
    let (odd, other) = (manifest_of("abc"), a.replace("image.model", "image.adapter"));
    let root = models(&[("h/n/odd/1", &odd), ("h/n/other/1", &other)]);
    assert_eq!(Blobs::read(root.path()).unwrap(), Blobs::default());
}

#[test]
fn a_host_with_more_manifests_than_are_read_says_so() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("manifests/registry.ollama.ai/library/many");
    fs::create_dir_all(&folder).unwrap();
    let text = manifest_of(A);
    for tag in 0..MANIFESTS_MAX + 3 {
        fs::write(folder.join(tag.to_string()), &text).unwrap();
    }
    assert_eq!(Blobs::read(root.path()).unwrap().left_out(), 3);
}

#[test]
fn without_manifests_the_folder_is_named() {
    let root = tempfile::tempdir().unwrap();
    let error = Blobs::read(root.path()).unwrap_err().to_string();
    assert!(error.contains("manifests: ") && error.ends_with("OLLAMA_MODELS"), "{error}");
}
