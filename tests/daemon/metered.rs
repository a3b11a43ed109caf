//! The meters of the running daemon: in the text file, and over the loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::daemon::{NOBODY, Setup};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

#[test]
fn meters_are_in_the_text_file_and_on_the_loopback() {
    if !can_trace("meters_are_in_the_text_file_and_on_the_loopback") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let setup = Setup::on(&sim);
    let folder = sim.folder().join("meters");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let file = folder.join("gpu-ledger.prom");
    let config = format!(
        "[metrics]\ntextfile = \"{}\"\ninterval = \"100ms\"\nlisten = \"127.0.0.1:0\"\n",
        file.display()
    );
    let daemon = setup.config(&config).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let page = poll("the file has what was booked", || {
        let page = std::fs::read_to_string(&file).ok()?;
        page.lines().any(|line| line == "gpu_ledger_settlements_total 1").then_some(page)
    });
    assert!(page.contains("account=\"server.py\""), "{page}");
    assert!(page.contains("gpu_ledger_healthy 1"), "{page}");
    let said = daemon.log();
    let address = said.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.contains("gpu_ledger_settlements_total 1"), "{told}");
    // The line of the first version of this idea, one a transaction that booked something.
    assert!(said.contains(" gpu-ledger: nvsim "), "{said}");
    daemon.stop();
}
