//! A controller with loaders and handlers, in processes' stead threads, against a node's stand-in.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::net::UdpSocket;

use tandem_stone::roles::{Part, control};
use tandem_stone::{Limits, Plan, Roles, Run, Users, Workload, reflect};

/// Two handlers and two loaders; the reflector answers OPTIONS at once, so that handlers have nothing to do but be there.
#[test]
fn a_plan_with_two_loaders_gives_one_result_with_the_sum_of_both() {
    let listen = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan: Plan =
        toml::from_str("workload = \"options\"\nloaders = 2\nhandlers = 2\n[load]\nrate = 200\n").unwrap();
    let to_run = |part: &Part| {
        assert_eq!(
            (part.workload.as_str(), part.options.as_slice()),
            ("options", &["--rate=200".to_owned()][..])
        );
        let users = Users::parse("20", "").unwrap();
        let mut run = Run::new(Workload::Options, listen, users, 200.0, Duration::from_secs(1));
        run.roles = Roles::Both;
        run.load.within = Duration::from_secs(10);
        run.limits = Limits { lateness: Duration::from_secs(5), begun: 0.99 };
        Ok(run)
    };
    let stop = AtomicBool::new(false);
    let (whole, parts) = std::thread::scope(|scope| {
        let reflector = scope.spawn(|| reflect(&[listen], &stop));
        let done = control(&plan, &to_run, &mut |_| {});
        stop.store(true, Ordering::Relaxed);
        reflector.join().unwrap().unwrap();
        done.unwrap()
    });
    assert_eq!((parts.len(), whole.rate), (4, 200.0));
    assert_eq!(whole.judged.succeeded, parts[0].judged.succeeded + parts[1].judged.succeeded);
    assert!(whole.stands() && whole.judged.succeeded > 100, "{whole}");
    assert_eq!(whole.single["options"].count, whole.judged.succeeded);
}
