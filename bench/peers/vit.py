"""DINOv2 ViT-B/14 at 448x448 in plain torch: the backbone of Gaze-LLE, with random weights.

Shapes and order of operations follow the DINOv2 paper's ViT-B/14 without register tokens: LayerNorm (eps 1e-6) before
each branch, exact (erf) GELU, LayerScale after each branch, one LayerNorm at the end.
"""

import torch
from torch import nn
from torch.nn import functional as F

SIDE = 448
PATCH = 14
WIDTH = 768
HEADS = 12
DEPTH = 12
HIDDEN = 4 * WIDTH
PATCHES = (SIDE // PATCH) ** 2
TOKENS = PATCHES + 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.gamma1 = nn.Parameter(torch.empty(WIDTH))
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, WIDTH)
        self.gamma2 = nn.Parameter(torch.empty(WIDTH))

    def attention(self, x):
        batch, tokens, _ = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))

    def forward(self, x):
        x = x + self.gamma1 * self.attention(self.norm1(x))
        return x + self.gamma2 * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Backbone(nn.Module):
    """[1, 3, 448, 448] -> [1, 1025, 768]"""

    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.cls_token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.empty(1, TOKENS, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, image):
        patches = self.patch_embed(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token, patches], dim=1) + self.pos_embed
        return self.norm(self.blocks(x))


def random_backbone():
    """Seeded: every process builds the same one. Values have the size of trained ones, so that no denormals appear."""
    torch.manual_seed(1)
    backbone = Backbone().eval().requires_grad_(False)
    for name, value in backbone.named_parameters():
        if "norm" in name:
            continue  # ones and zeros
        if "gamma" in name:
            value.uniform_(0.05, 0.5)
        else:
            value.normal_(std=0.02)
    return backbone


def random_image():
    return torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
