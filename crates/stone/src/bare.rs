//! The bars that a server is measured against: a forwarder and a reflector that know nothing of SIP.
//!
//! Both do the least that any server must do with the same messages: read each from a socket, write one to a socket,
//! in batches of `recvmmsg` and `sendmmsg`. What a server costs above them is its own.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use memchr::memchr;
use tandem_net::{Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::{Hop, ListenerId, Outbox};

use crate::error::StoneError;

/// How often a loop without traffic looks whether it shall stop.
const IDLE: Duration = Duration::from_millis(100);

/// One forwarded pair: what comes to `listen` from anyone goes to `callee`; what comes from `callee` goes back to whom
/// a datagram came from last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Our address.
    pub listen: SocketAddr,
    /// The answering end.
    pub callee: SocketAddr,
}

/// What a bar has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams lost because a receive buffer was full.
    pub dropped: u64,
}

/// Copies datagrams between the two sides of each pair until `stop` is set.
///
/// # Errors
///
/// [`StoneError::Socket`] if a pair's address cannot be bound or the kernel fails us.
pub fn forward(pairs: &[Pair], stop: &AtomicBool) -> Result<Passed, StoneError> {
    let mut net = open(pairs.iter().map(|pair| pair.listen))?;
    let mut callers = vec![None; pairs.len()];
    pass(&mut net, stop, |hop, bytes, out| {
        let place = usize::from(hop.listener.0);
        let (Some(pair), Some(caller)) = (pairs.get(place), callers.get_mut(place)) else { return };
        let peer = if hop.peer == pair.callee {
            let Some(caller) = *caller else { return };
            caller
        } else {
            *caller = Some(hop.peer);
            pair.callee
        };
        out.send(Hop::udp(hop.listener, peer), bytes);
    })
}

/// Answers every datagram with itself, `SIP/2.0 200 OK` in place of its first line, until `stop` is set.
///
/// # Errors
///
/// [`StoneError::Socket`] if an address cannot be bound or the kernel fails us.
pub fn reflect(listen: &[SocketAddr], stop: &AtomicBool) -> Result<Passed, StoneError> {
    let mut net = open(listen.iter().copied())?;
    pass(&mut net, stop, |hop, bytes, out| {
        let Some(end) = memchr(b'\n', bytes) else { return };
        out.write(hop, |answer| {
            answer.extend_from_slice(b"SIP/2.0 200 OK\r\n");
            answer.extend_from_slice(bytes.get(end + 1..).unwrap_or_default());
        });
    })
}

fn open(addresses: impl Iterator<Item = SocketAddr>) -> Result<Net, StoneError> {
    // `recvmmsg` and `sendmmsg`, nothing else: trains are what a server may do better.
    let options = NetOptions { trains: false, ..NetOptions::default() };
    let mut net = Net::new(options).map_err(|error| StoneError::socket("epoll", &error))?;
    for (place, address) in addresses.enumerate() {
        let options = UdpOptions { receive_buffer_bytes: 16 << 20, ..UdpOptions::default() };
        let listener = ListenerId(u16::try_from(place).unwrap_or(u16::MAX));
        UdpSocket::bind(address, &options)
            .and_then(|socket| net.add_udp(listener, socket))
            .map_err(|error| StoneError::socket(format!("udp {address}"), &error))?;
    }
    Ok(net)
}

fn pass(
    net: &mut Net,
    stop: &AtomicBool,
    mut each: impl FnMut(Hop, &[u8], &mut Outbox),
) -> Result<Passed, StoneError> {
    let mut out = Outbox::new();
    while !stop.load(Ordering::Relaxed) {
        let received = net.wait(Some(IDLE)).map_err(|error| StoneError::socket("epoll", &error))?;
        net.clear_errors();
        if received == 0 {
            continue;
        }
        for datagram in net.batch() {
            each(datagram.hop, datagram.bytes, &mut out);
        }
        net.flush(&mut out);
    }
    let counts = net.counts();
    Ok(Passed { received: counts.received, sent: counts.sent, dropped: counts.receive_overflows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket as Plain;

    fn bound() -> Plain {
        let socket = Plain::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    #[test]
    fn a_pair_carries_datagrams_there_and_back_unchanged() {
        let (caller, callee, free) = (bound(), bound(), bound().local_addr().unwrap());
        let stop = AtomicBool::new(false);
        let pair = Pair { listen: free, callee: callee.local_addr().unwrap() };
        std::thread::scope(|scope| {
            let passed = scope.spawn(|| forward(&[pair], &stop));
            let mut buffer = [0; 100];
            let (length, from) = loop {
                caller.send_to(b"INVITE", free).unwrap();
                callee.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                if let Ok(read) = callee.recv_from(&mut buffer) {
                    break read;
                }
            };
            assert_eq!((&buffer[..length], from), (&b"INVITE"[..], free));
            callee.send_to(b"200", free).unwrap();
            let (length, from) = caller.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from), (&b"200"[..], free));
            stop.store(true, Ordering::Relaxed);
            let passed = passed.join().unwrap().unwrap();
            assert_eq!(passed.received, passed.sent);
        });
    }
}
