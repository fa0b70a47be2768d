//! Ports on loopback that nobody else in the laboratory has, now or from another test process.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port handed out; below the kernel's ephemeral range, so that no unbound socket gets one of ours.
const FIRST: u16 = 20_000;
/// How many are tried before giving up.
const COUNT: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A free UDP and TCP port on loopback, reserved until dropped.
///
/// The reservation is a socket on another loopback address (127.99.99.99), which other processes of the
/// laboratory try as well; the peer itself binds 127.0.0.1 or ::1.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reservation: UdpSocket,
}

impl Port {
    /// Reserves a free port.
    ///
    /// # Panics
    ///
    /// If none of 10,000 is free.
    #[must_use]
    pub fn free() -> Self {
        let start = (std::process::id() % u32::from(COUNT)).try_into().unwrap_or(0_u16);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(2, Ordering::Relaxed);
            let number = FIRST + (start.wrapping_add(step)) % COUNT;
            // Even, because media ports come in pairs and the tests use these for both.
            let number = number & !1;
            if let Some(reservation) = reserve(number) {
                return Self { number, _reservation: reservation };
            }
        }
        panic!("no free port on loopback between {FIRST} and {}", FIRST + COUNT)
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// This port on 127.0.0.1.
    #[must_use]
    pub fn v4(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.number))
    }

    /// This port on ::1.
    #[must_use]
    pub fn v6(&self) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, self.number))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

fn reserve(number: u16) -> Option<UdpSocket> {
    let reservation = UdpSocket::bind(("127.99.99.99", number)).ok()?;
    UdpSocket::bind(("127.0.0.1", number)).ok()?;
    TcpListener::bind(("127.0.0.1", number)).ok()?;
    if let Err(error) = UdpSocket::bind((Ipv6Addr::LOCALHOST, number))
        && error.kind() == std::io::ErrorKind::AddrInUse
    {
        return None;
    }
    Some(reservation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_twice() {
        let first = Port::free();
        assert!(reserve(first.number()).is_none());
        assert_ne!(first.number(), Port::free().number());
    }
}
