import torch

from fighter.nn import FighterEncoder

from .test_layer import double, literal


def test_an_encoder_is_its_layers_and_the_last_has_no_activation():
    encoder = double(FighterEncoder([3, 8, 8, 2], kappa=(3, 2, 1), heads=(2, 4, 1)))
    assert [layer.powers for layer in encoder.layers] == [(0, 1, 2), (0, 1), (0,)]
    assert [layer.residual for layer in encoder.layers] == [False, True, False]
    assert isinstance(encoder.layers[-1].activation, torch.nn.Identity)
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    y = x
    for layer in encoder.layers:
        y = literal(layer, y)
    torch.testing.assert_close(encoder(x), y, rtol=1e-11, atol=1e-12)
    graphs = encoder.graphs(x)
    assert [g.shape for g in graphs] == [(2, 2, 9, 9), (2, 4, 9, 9), (2, 1, 9, 9)]
    torch.testing.assert_close(graphs[1], encoder.layers[1].graph(encoder.layers[0](x)))


def test_an_encoder_can_be_made_of_existing_layers():
    encoder = double(FighterEncoder([3, 8, 2]))
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    assert torch.equal(FighterEncoder.from_layers(list(encoder.layers))(x), encoder(x))
