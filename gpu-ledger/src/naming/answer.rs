//! What the helper answers, and how much of it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::attribution::ContainerNames;

/// The number in every answer; raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;
/// Bytes of an answer's line: what follows, with every byte escaped.
pub const ANSWER_BYTES_MAX: u64 = 128 << 10;
/// Bytes of a name. A longer one is left out: cut, it would be another's.
const NAME_BYTES_MAX: usize = 512;
/// Labels of one container.
const LABELS_MAX: usize = 64;
/// Bytes of its labels together, names and values.
const LABELS_BYTES_MAX: usize = 8 << 10;

/// What a runtime's files or the helper tell of a container, however long.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    pub(super) name: Option<String>,
    pub(super) image: Option<String>,
    pub(super) compose_project: Option<String>,
    pub(super) compose_service: Option<String>,
    pub(super) pod: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// Those of its pod, which go before its own: an image may bear any.
    #[serde(skip)]
    pub(super) pod_labels: BTreeMap<String, String>,
}

/// Labels by which the kubelet finds again what it made: of a pod its name and namespace, which its containers bear,
/// too, and of a container its name (kubernetes, `kubelet/pkg/types/labels.go`).
const KUBELETS: &str = "io.kubernetes.";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

impl Told {
    /// With a container's own labels, of which those of a compose file are its project and service
    /// (docker/compose v2, `pkg/api/labels.go`; podman-compose and nerdctl write the same).
    pub(super) fn with_labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.compose_project = labels.get("com.docker.compose.project").cloned();
        self.compose_service = labels.get("com.docker.compose.service").cloned();
        self.labels = labels;
        self
    }

    /// As a container of a pod that has these labels. What the kubelet calls it goes before what a runtime made of
    /// that.
    pub(super) fn in_pod(mut self, mut labels: BTreeMap<String, String>) -> Self {
        let labelled = |key| self.labels.get(key).cloned();
        let name = labelled(CONTAINER_NAME).or(self.name);
        let pod = labelled(POD_NAME).or_else(|| labels.get(POD_NAME).cloned()).or(self.pod);
        let namespace = labelled(POD_NAMESPACE).or_else(|| labels.get(POD_NAMESPACE).cloned());
        let namespace = namespace.or(self.namespace);
        // A sandbox has a container's name, too, and one type where its containers have another.
        labels.retain(|key, _| !(key.starts_with(KUBELETS) && self.labels.contains_key(key)));
        self.pod_labels = labels;
        Self { name, pod, namespace, ..self }
    }

    /// As much of it as is kept.
    pub(super) fn bounded(self) -> ContainerNames {
        let name = |text: Option<String>| {
            let text = text.filter(|text| (1..=NAME_BYTES_MAX).contains(&text.len()));
            text.map(Arc::from)
        };
        let mut room = LABELS_BYTES_MAX;
        let mut labels = BTreeMap::new();
        for (key, value) in self.pod_labels.into_iter().chain(self.labels) {
            let bytes = key.len().saturating_add(value.len());
            // One that is too long makes no other go.
            if let Some(left) = room.checked_sub(bytes)
                && labels.len() < LABELS_MAX
                && !labels.contains_key(key.as_str())
            {
                room = left;
                labels.insert(Arc::from(key), Arc::from(value));
            }
        }
        ContainerNames {
            name: name(self.name),
            image: name(self.image),
            compose_project: name(self.compose_project),
            compose_service: name(self.compose_service),
            pod: name(self.pod),
            namespace: name(self.namespace),
            labels,
        }
    }
}

/// The line of an answer without its end. `None` for the names: no runtime has them.
#[must_use]
pub(super) fn answer(names: Option<&ContainerNames>) -> String {
    json!({ "version": VERSION, "names": names.map(names_json) }).to_string()
}

/// The line of a question that is not answered, without its end.
#[must_use]
pub(super) fn refusal(why: &str) -> String {
    json!({ "version": VERSION, "error": why }).to_string()
}

fn names_json(names: &ContainerNames) -> Value {
    json!({
        "name": names.name,
        "image": names.image,
        "compose_project": names.compose_project,
        "compose_service": names.compose_service,
        "pod": names.pod,
        "namespace": names.namespace,
        "labels": names.labels,
    })
}

/// Reads an answer; bounded again, whoever it comes from.
///
/// # Errors
/// Why it is none: what the helper said against the question, or that it is not of its form.
pub(super) fn read_answer(line: &[u8]) -> Result<Option<ContainerNames>, String> {
    let no_answer = || "it sent what is no answer".to_owned();
    let mut value: Value = serde_json::from_slice(line).map_err(|_| no_answer())?;
    if value.get("version") != Some(&json!(VERSION)) {
        return Err(format!("it does not speak version {VERSION}: install both from one release"));
    }
    if let Some(why) = value.get("error").and_then(Value::as_str) {
        return Err(why.to_owned());
    }
    let names = value.get_mut("names").map(Value::take).ok_or_else(no_answer)?;
    let told: Option<Told> = serde_json::from_value(names).map_err(|_| no_answer())?;
    Ok(told.map(Told::bounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn names_come_out_as_they_went_in() {
        let names = ContainerNames {
            name: Some(text("web \"1\"\n")),
            image: Some(text("team/demo:1.0")),
            compose_project: Some(text("shop")),
            compose_service: None,
            pod: Some(text("p")),
            namespace: Some(text("n")),
            labels: BTreeMap::from([("a".into(), "1".into()), ("b".into(), "".into())]),
        };
        let line = answer(Some(&names));
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(read_answer(line.as_bytes()), Ok(Some(names)));
        assert_eq!(read_answer(answer(None).as_bytes()), Ok(None));
    }

    #[test]
    fn the_order_of_labels_in_a_file_changes_nothing() {
        let of = |json: &str| {
            let labels: BTreeMap<String, String> = serde_json::from_str(json).unwrap();
            answer(Some(&Told::default().with_labels(labels).bounded()))
        };
        let project = r#""com.docker.compose.project":"shop""#;
        let one = of(&format!(r#"{{"z":"1",{project},"a":"2"}}"#));
        assert_eq!(one, of(&format!(r#"{{"a":"2","z":"1",{project}}}"#)));
        assert!(one.contains(r#""compose_project":"shop","compose_service":null"#), "{one}");
        assert!(one.contains(r#""labels":{"a":"2","com.docker.compose.project":"shop","z":"1"}"#));
    }

    #[test]
    fn what_is_no_answer_is_told_and_never_taken_for_no_name() {
        for line in
            ["", "{}", "[1]", "{\"version\":1}", "{\"version\":1,\"names\":5}", "\0\x7f", "names"]
        {
            assert!(read_answer(line.as_bytes()).is_err(), "{line}");
        }
        let other = read_answer(br#"{"version":2,"names":null}"#).unwrap_err();
        assert!(other.contains("version 1"), "{other}");
        assert_eq!(read_answer(refusal("no").as_bytes()), Err("no".to_owned()));
        // What a later helper adds does no harm.
        let more = br#"{"version":1,"names":{"name":"a","more":1},"x":2}"#;
        assert_eq!(read_answer(more).unwrap().unwrap().name, Some(text("a")));
    }

    #[test]
    fn nobody_fills_the_memory_with_names() {
        let labels = (0..1_000).map(|n| (format!("key{n:04}"), "v".repeat(100)));
        let mut labels: BTreeMap<String, String> = labels.collect();
        labels.insert("a".into(), "x".repeat(LABELS_BYTES_MAX));
        let told = Told { name: Some("n".repeat(NAME_BYTES_MAX + 1)), ..Told::default() };
        let names = told.with_labels(labels).bounded();
        assert_eq!(names.name, None);
        assert_eq!(names.labels.len(), LABELS_MAX);
        assert!(names.labels.contains_key("key0000") && !names.labels.contains_key("a"));
        let bytes: usize = names.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= LABELS_BYTES_MAX);
        // The worst that passes still fits an answer.
        let worst = (0..63).map(|n| (format!("{n:02}{}", "\u{1}".repeat(64)), "\u{1}".repeat(64)));
        let text = || Some("\u{1}".repeat(NAME_BYTES_MAX));
        let told =
            Told { name: text(), image: text(), pod: text(), namespace: text(), ..Told::default() };
        let worst = answer(Some(&told.with_labels(worst.collect()).bounded()));
        assert!(u64::try_from(worst.len()).unwrap() < ANSWER_BYTES_MAX, "{}", worst.len());
    }
}
