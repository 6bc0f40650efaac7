"""Where generated clusters are."""

from __future__ import annotations

from typing import Final, NamedTuple


class City(NamedTuple):
    """A place on the globe, in degrees."""

    name: str
    latitude: float
    longitude: float


CITIES: Final = (
    City("oregon", 45.8, -119.7),
    City("virginia", 39.0, -77.5),
    City("ohio", 40.0, -83.0),
    City("california", 37.4, -121.9),
    City("montreal", 45.5, -73.6),
    City("saopaulo", -23.5, -46.6),
    City("london", 51.5, -0.1),
    City("dublin", 53.3, -6.3),
    City("frankfurt", 50.1, 8.7),
    City("paris", 48.9, 2.4),
    City("stockholm", 59.3, 18.1),
    City("milan", 45.5, 9.2),
    City("mumbai", 19.1, 72.9),
    City("singapore", 1.4, 103.8),
    City("hongkong", 22.3, 114.2),
    City("beijing", 39.9, 116.4),
    City("seoul", 37.6, 127.0),
    City("tokyo", 35.7, 139.7),
    City("sydney", -33.9, 151.2),
    City("capetown", -33.9, 18.4),
)
