//! `gpu-ledger bill` in money, end to end: its price file, its exit status, and its FOCUS export before an
//! independent judge, the FOCUS validator from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::python::output;
use crate::skip::skip;
use crate::{Host, gpu, text};

/// The newest one on PyPI, which knows FOCUS 1.0; and what it needs, where a newer one no longer has what it
/// calls (pandera 0.17 imports `multimethod.overload`, which 2.0 took away).
const PACKAGES: [&str; 2] = ["focus-validator==1.0.0", "multimethod==1.9.1"];

/// A throw-away virtual environment with the validator; the reason if there can be none.
fn environment() -> Result<&'static Path, String> {
    static ENVIRONMENT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = ENVIRONMENT.get_or_init(|| crate::python::environment("focus-validator", &PACKAGES));
    made.as_deref().map_err(Clone::clone)
}

/// The library's own validation; it finds its list of currencies only from its own folder.
const VALIDATE: &str = r#"
import importlib.util, json, os, pathlib, sys
data = os.path.abspath(sys.argv[1])
os.chdir(pathlib.Path(importlib.util.find_spec("focus_validator").origin).parents[1])
from focus_validator.validator import Validator
validator = Validator(data_filename=data, output_destination=None, output_type="console",
                      rules_version="1.0", column_namespace="x")
validator.load()
results = validator.spec_rules.validate(validator.focus_data)
print(json.dumps({"rows": len(validator.focus_data),
                  "checks": {name: check.status.value for name, check in results.checklist.items()},
                  "errors": {name: check.error for name, check in results.checklist.items() if check.error}}))
"#;

/// What the validator says of a file; `None` where it could not be had.
fn validated(csv: &[u8], test: &str) -> Option<Value> {
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => {
            skip(test, &reason);
            return None;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("focus.csv");
    std::fs::write(&file, csv).unwrap();
    let mut command = Command::new(python);
    command.args(["-W", "ignore", "-c", VALIDATE]).arg(&file);
    let printed = output(&mut command).unwrap_or_else(|error| panic!("{error}"));
    Some(serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}")))
}

/// The checks that did not pass.
fn failed(said: &Value) -> Vec<String> {
    let checks = said["checks"].as_object().unwrap();
    assert!(checks.len() > 120, "the validator checks FOCUS 1.0: {}", checks.len());
    let failed = checks.iter().filter(|(_, status)| *status != "passed");
    failed.map(|(name, status)| format!("{name} {}", status.as_str().unwrap())).collect()
}

/// A file with a price of one GPU.
fn price_file(host: &Host, of: &str, meters: &[&str]) -> String {
    let path = host.folder.path().join(format!("prices-{}.toml", meters.join("-")));
    let price = |meter: &&str| {
        format!("[[price]]\ngpu = \"{of}\"\nmeter = \"{meter}\"\nper_hour = \"1.23456789\"\n")
    };
    let prices: String = meters.iter().map(price).collect();
    std::fs::write(&path, format!("currency = \"EUR\"\n{prices}")).unwrap();
    path.display().to_string()
}

#[test]
fn the_validator_passes_a_bill_on_which_everything_is_known() {
    let host = Host::with(false);
    let prices = price_file(&host, "NVIDIA H200", &["held", "alone"]);
    let said = host.bill(&["--since", "3h", "--prices", &prices, "--format", "focus"]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let test = "the_validator_passes_a_bill_on_which_everything_is_known";
    let Some(found) = validated(&said.stdout, test) else { return };
    assert!(found["rows"].as_u64().unwrap() >= 5, "{found}");
    assert_eq!(failed(&found), Vec::<String>::new(), "{found}");
}

/// A number there would be a lie, so the validator finds what the bill says: costs that are not known.
#[test]
fn the_validator_finds_unknown_costs_and_nothing_else() {
    let host = Host::with(false);
    let prices = price_file(&host, "NVIDIA H200", &["held", "memory"]);
    let said = host.bill(&["--since", "3h", "--prices", &prices, "--format", "focus"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("have an UNKNOWN cost"), "{}", text(&said.stderr));
    let test = "the_validator_finds_unknown_costs_and_nothing_else";
    let Some(found) = validated(&said.stdout, test) else { return };
    let costs = ["BilledCost", "ContractedCost", "EffectiveCost", "ListCost"];
    let wanted: Vec<String> = costs.iter().map(|cost| format!("{cost}_NotNull failed")).collect();
    assert_eq!(failed(&found), wanted, "{found}");
}

#[test]
fn a_missing_price_is_said_with_status_2_and_the_rest_is_priced() {
    let host = Host::with(false);
    let bill = |prices: &str, form: &str| {
        host.bill(&["--since", "3h", "--prices", prices, "--format", form])
    };
    let prices = price_file(&host, &gpu().to_string(), &["held"]);
    let said = bill(&prices, "json");
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stdout));
    let known: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(known["priced"]["currency"], "EUR");
    assert_eq!(known["priced"]["booked"]["unknown_lines"], 0);
    assert!(text(&bill(&prices, "table").stdout).contains("\n  booked: "));
    let other = price_file(&host, "NVIDIA H100", &["held", "alone"]);
    for (form, said) in [("table", "UNKNOWN"), ("json", "\"no-price\""), ("focus", ",no-price,")] {
        let unknown = bill(&other, form);
        assert_eq!(unknown.status.code(), Some(2), "{form}");
        assert!(text(&unknown.stdout).contains(said), "{form}");
    }
    let unpriced = host.bill(&["--since", "3h", "--format", "json"]);
    let unpriced: Value = serde_json::from_slice(&unpriced.stdout).unwrap();
    assert_eq!(unpriced["priced"], Value::Null);
}

#[test]
fn a_wrong_price_file_is_refused_with_every_place_and_what_to_do() {
    let host = Host::with(false);
    let path = host.folder.path().join("wrong.toml");
    let file = path.display().to_string();
    std::fs::write(
        &path,
        "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"helt\"\nper_hour = nan\n",
    )
    .unwrap();
    let said = host.bill(&["--since", "3h", "--prices", &file]);
    assert_eq!(said.status.code(), Some(1));
    assert!(said.stdout.is_empty());
    let told = text(&said.stderr);
    assert!(told.contains(&format!("{file}:4:9: \"helt\" is no meter; did you mean \"held\"?\n")));
    assert!(told.contains(&format!("{file}:5:12: nan is no number; write the price as text")));
    let missing = host.bill(&["--since", "3h", "--prices", "/nonexistent/prices.toml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nonexistent/prices.toml: "));
    // Without prices there is no bill in money.
    if !Path::new("/etc/gpu-ledger/prices.toml").exists() {
        let none = host.bill(&["--since", "3h", "--format", "focus"]);
        assert_eq!(none.status.code(), Some(64));
        assert!(text(&none.stderr).contains("give --prices FILE"), "{}", text(&none.stderr));
    }
}

#[test]
fn the_configured_price_file_is_used_and_must_be_there() {
    let host = Host::with(false);
    let config = host.folder.path().join("config.toml");
    let bill = |prices: &str| {
        std::fs::write(&config, format!("prices = \"{prices}\"\n")).unwrap();
        host.bill(&["--since", "3h", "--format", "json", "--config", config.to_str().unwrap()])
    };
    let said = bill(&price_file(&host, "NVIDIA H200", &["held"]));
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let bill_in_money: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(bill_in_money["priced"]["currency"], "EUR");
    let missing = bill("/nonexistent/prices.toml");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nonexistent/prices.toml: "));
}
