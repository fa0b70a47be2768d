//! Captures: the classic libpcap format with bare IPv4 packets (LINKTYPE_RAW), which tshark reads.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use tandem_base::Instant;

/// One datagram of the run.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) is_lost: bool,
    pub(crate) bytes: Box<[u8]>,
}

const LINKTYPE_RAW: u32 = 101;
const HEADERS: usize = 28;

/// The capture as a file's bytes; lost datagrams get a time-to-live of 0.
pub(crate) fn capture<'a>(datagrams: impl Iterator<Item = &'a Captured>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, LINKTYPE_RAW] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for datagram in datagrams {
        let length = u32::try_from(HEADERS + datagram.bytes.len()).unwrap_or(u32::MAX);
        let nanos = datagram.at.as_nanos();
        let seconds = u32::try_from(nanos / 1_000_000_000).unwrap_or(u32::MAX);
        let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        for word in [seconds, rest, length, length] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        write_packet(datagram, &mut file);
    }
    file
}

fn write_packet(datagram: &Captured, out: &mut Vec<u8>) {
    let v4 = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
    };
    let total = u16::try_from(HEADERS + datagram.bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    let ttl = if datagram.is_lost { 0 } else { 64 };
    let mut ip = vec![0x45, 0];
    ip.extend_from_slice(&total);
    ip.extend_from_slice(&[0, 0, 0x40, 0, ttl, 17, 0, 0]);
    ip.extend_from_slice(&v4(datagram.from));
    ip.extend_from_slice(&v4(datagram.to));
    let words = ip.chunks_exact(2).filter_map(|pair| pair.try_into().ok());
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0);
    if let Some(place) = ip.get_mut(10..12) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    out.extend_from_slice(&ip);
    out.extend_from_slice(&datagram.from.port().to_be_bytes());
    out.extend_from_slice(&datagram.to.port().to_be_bytes());
    let udp = u16::try_from(8 + datagram.bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&udp.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&datagram.bytes);
}
