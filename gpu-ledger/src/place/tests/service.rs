//! Which service a unit stands for.

use crate::place::Place;

fn service(path: &str) -> Option<String> {
    Place::of_path(path.as_bytes()).service().map(|name| name.to_string())
}

#[test]
fn a_service_is_its_unit_without_ending_instance_and_escapes() {
    for (unit, name) in [
        ("ollama.service", "ollama"),
        ("text-generation-inference.service", "text-generation-inference"),
        ("postgresql@9.4-main.service", "postgresql"),
        (r"vllm\x2dqwen@0.service", "vllm-qwen"),
        (r"odd\x1b.service", r"odd\x1b"),
        (r"odd\xff.service", r"odd\xff"),
        (r"odd\x4.service", r"odd\x4"),
        ("snap.ollama.listener.service", "snap.ollama.listener"),
        ("actions.runner.me-repo.host.service", "actions.runner.me-repo.host"),
        // Names that begin as those of systemd-run do.
        ("run-llama.service", "run-llama"),
        ("run-u.service", "run-u"),
        ("run-r0b7ab871.service", "run-r0b7ab871"),
        ("run-puppet.service", "run-puppet"),
        ("docker-backup.service", "docker-backup"),
        ("user-sync.service", "user-sync"),
    ] {
        assert_eq!(service(&format!("/system.slice/{unit}")).as_deref(), Some(name), "{unit}");
    }
}

#[test]
fn a_users_own_service_comes_before_the_systems() {
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    assert_eq!(service(&format!("{manager}/app.slice/a.service")).as_deref(), Some("a"));
    assert_eq!(
        service("/user.slice/user-1.slice/session-2.scope/b.service/x").as_deref(),
        Some("b")
    );
    // A slice has no instances (`unit_name_is_valid`, src/basic/unit-name.c): there the walk ends.
    assert_eq!(service("/a@b.slice/c.service"), None);
    // Below another service there is no manager.
    assert_eq!(service("/system.slice/c.service/d.service").as_deref(), Some("c"));
}

#[test]
fn what_only_says_how_a_process_was_started_is_no_service() {
    for unit in [
        "/init.scope",
        "/user.slice/user-1000.slice/session-c2.scope",
        "/user.slice/user-1000.slice/user@1000.service",
        "/system.slice/run-u42.service",
        "/system.slice/run-r0b7ab871ab654e01aa721887f44b549c.service",
        "/system.slice/run-r0b7ab871ab654e01aa721887f44b549c.scope",
        "/system.slice/run-p1234-i5678.service",
        "/system.slice/run-p1234.service",
        "/system.slice/cron.service",
        "/system.slice/crond.service",
        "/system.slice/atd.service",
        "/system.slice/anacron.service",
        "/system.slice/sshd.service",
        "/system.slice/sshd@3-10.0.0.1:22-10.0.0.2:50000.service",
        "/system.slice/system-getty.slice/getty@tty1.service",
        "/system.slice/containerd.service",
        "/system.slice/docker.service",
        "/system.slice/slurmd.service",
        "/system.slice/condor.service",
        "/machine.slice/systemd-nspawn@web.service/supervisor",
    ] {
        assert_eq!(service(unit), None, "{unit}");
    }
    for unit in [
        "init.scope",
        "app.slice/app-gnome-firefox-1234.scope",
        r"app.slice/app-org.kde.konsole@0f1e2d3c.service",
        "app.slice/app-nextcloud@autostart.service",
        "app.slice/dbus-:1.2-org.gnome.Nautilus@0.service",
        "app.slice/gnome-terminal-server.service",
        "app.slice/vte-spawn-fbd45fd9-2c1f-4dce-b177-da71ad46be3b.scope",
        "tmux-spawn-0267755b-4639-4a27-90ed-f19f88e53748.scope",
        "app.slice/docker.service",
        "app.slice/run-u3.service",
    ] {
        let path = format!("/user.slice/user-1000.slice/user@1000.service/{unit}");
        assert_eq!(service(&path), None, "{unit}");
    }
}
