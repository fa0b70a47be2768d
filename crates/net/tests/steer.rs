//! The kernel and `Steering` agree on who owns a message.

use std::net::UdpSocket as Plain;
use std::time::Duration;

use tandem_net::{Net, NetOptions, SteerError, Steering, UdpOptions, UdpSocket, steer_in_kernel};
use tandem_sip::ListenerId;

/// 400 Call-IDs in all spellings, from three source ports, to four sockets.
#[test]
fn the_kernel_gives_every_call_id_to_the_shard_that_owns_it() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let address = first.local_address();
    let mut sockets = vec![first];
    sockets.extend((1..4).map(|_| UdpSocket::bind(address, &options).unwrap()));
    let steering = Steering::new(*b"a secret for us!", 4);
    let steered = steer_in_kernel(&sockets.iter().collect::<Vec<_>>(), &steering);
    let may = std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| {
        let capabilities =
            line.strip_prefix("CapEff:").map(|hex| u64::from_str_radix(hex.trim(), 16).unwrap());
        capabilities.is_some_and(|bits| bits & (1 << 39) != 0) // CAP_BPF
    });
    match &steered {
        Ok(()) => assert!(may),
        Err(SteerError::Refused(reason)) => assert!(!may, "refused though we have CAP_BPF: {reason}"),
        Err(SteerError::NotBuilt) => {}
    }

    let mut nets: Vec<_> = sockets
        .into_iter()
        .map(|socket| {
            let mut net = Net::new(NetOptions::default()).unwrap();
            net.add_udp(ListenerId(0), socket).unwrap();
            net
        })
        .collect();
    let peers: Vec<_> = (0..3).map(|_| Plain::bind("127.0.0.1:0").unwrap()).collect();
    let mut owned = [0; 4];
    let mut astray = 0;
    for call in 0..400 {
        let id = "x".repeat(call % 129) + &call.to_string();
        let header = match call % 5 {
            0 => format!("Call-ID: {id}\r\n"),
            1 => format!("i:{id}\r\n"),
            2 => format!("CALL-id \t :\t {id} \r\n"),
            3 => format!("I :\r\n {id}\r\n"),
            _ => format!("Identity: i\r\nCall-Info: c\r\nIn-Reply-To: {call}\r\ncall-id:{id}\n"),
        };
        let filler = "f".repeat(call * 3);
        let message = format!(
            "INVITE sip:i SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nX: {filler}\r\n{header}\r\nCall-ID: body\r\n"
        );
        let owner = usize::try_from(steering.owner(message.as_bytes()).unwrap()).unwrap();
        assert_eq!(steering.owner_of(id.as_bytes()) as usize, owner);
        for peer in &peers {
            peer.send_to(message.as_bytes(), address).unwrap();
        }
        let mut came = 0;
        for _ in 0..100 {
            for (number, net) in nets.iter_mut().enumerate() {
                let count = net.wait(Some(Duration::ZERO)).unwrap();
                came += count;
                owned[number] += count;
                // Longer ones than the program hashes go where the kernel likes.
                astray += if number == owner || id.len() > 128 { 0 } else { count };
            }
            if came == peers.len() {
                break;
            }
        }
        assert_eq!(came, peers.len(), "datagrams of call {call} were lost");
    }
    if steered.is_ok() {
        assert_eq!(astray, 0);
    } else {
        assert!(astray > 300, "only {astray} of 1,200 astray: does something else steer?");
    }
    assert!(owned.iter().all(|count| *count > 150), "{owned:?}");
    // Without a Call-ID it is nobody's, and still arrives.
    peers[0].send_to(b"\r\n\r\n", address).unwrap();
    let came: usize = nets.iter_mut().map(|net| net.wait(Some(Duration::from_millis(50))).unwrap()).sum();
    assert_eq!(came, 1);
}
