"""Pictures, drawn with matplotlib from plain data.

- :mod:`.theme`: colours, light and dark, and the style of panels;
- :mod:`.forecasts`: series with their forecasts and intervals;
- :mod:`.graphs`: the graph behind one forecast;
- :mod:`.hops`: powers of A and the diagnostics of each hop.
"""
