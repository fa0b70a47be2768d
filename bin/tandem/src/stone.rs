//! `tandem stone`: the load tool. Its options and its work are those of the crate of that name.

use std::process::ExitCode;

use crate::cli::StoneArgs;

pub(crate) const AFTER: &str = "\
Examples:
  tandem stone proxy200 --target sip:127.0.0.1:5060 --rate 2000 --for 60s --out result
  tandem stone register --target sip:127.0.0.1:5060 --users 10000 --password secret --rate 5000
  tandem stone search --goal four-nines --target sip:127.0.0.1:5060 --rate 1000 --for 10s --pid $(pidof kamailio)
  tandem stone uas --callee 127.0.0.1:5070        the answering end alone
  tandem stone forwarder --pair 127.0.0.1:5060=127.0.0.1:5070

Exit codes:
  0 the run stands   1 it could not begin or go on   2 the command line makes no sense
  4 void: the generator was the bottleneck, so that the figures say nothing about the target";

pub(crate) fn run(args: StoneArgs) -> ExitCode {
    tandem_stone::cli::run(args.stone)
}
