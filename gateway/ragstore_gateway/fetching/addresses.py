"""The addresses that a connection may be made to."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address
AddressCheck: TypeAlias = Callable[[IPAddress], bool]
"""Whether a connection to an address may be made."""

GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All public addresses of IPv6. IPv4-mapped, IPv4-compatible, translated and NAT64 addresses are outside of it."""

INNER: Final = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv6Network("::1/128"),
    IPv6Network("fc00::/7"),
)
"""Networks that an allowed host may be in. Link-local addresses are none: cloud providers have credentials there."""

METADATA: Final = IPv4Address("168.63.129.16")
"""Azure's servers for its virtual machines: the address is global, and means another machine for each caller."""

NOT_PUBLIC: Final = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),  # the relays of 6to4
    IPv4Network("198.18.0.0/15"),
    IPv4Network("224.0.0.0/3"),  # multicast and reserved
    IPv6Network("2001::/23"),  # Teredo, ORCHID, benchmarks
    IPv6Network("2001:db8::/32"),
    IPv6Network("2002::/16"),  # 6to4: an IPv4 address is inside
    IPv6Network("3fff::/20"),
)
"""Networks that are not public, beyond the networks that `ipaddress` knows: older versions call some of them global."""

ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""Upper half of the interface id of an address that has an IPv4 address inside."""


def is_public(address: IPAddress) -> bool:
    """Whether an address is a public one, of one machine, without another address inside."""
    if isinstance(address, IPv6Address) and not _is_plain(address):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and address != METADATA
        and not any(address in network for network in NOT_PUBLIC)
    )


def is_public_or_inner(address: IPAddress) -> bool:
    """Whether an address is a public one, or one of an inner network. The check for hosts that the settings allow."""
    if isinstance(address, IPv6Address) and address.scope_id:
        return False
    return address == METADATA or any(address in network for network in INNER) or is_public(address)


def _is_plain(address: IPv6Address) -> bool:
    interface = int(address) >> 32 & 0xFFFFFFFF
    return not address.scope_id and address in GLOBAL_UNICAST and interface not in ISATAP
