"""Models that people deploy, as their packages build them: small, with random weights, each with inputs a user sends.

The packages are those of benchmarks/strangers-requirements.txt. Each function here builds one model and its calls.
The first call is the example that is traced; the ten others are legitimate: other batches, lengths, sizes and masks.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "models"))
import torchvision_operators  # noqa: F401  # torchvision's own do not load beside PyPI's build of torch for the CPU

VOCABULARY = 99

Call = tuple[Any, ...]
Built = tuple[nn.Module, list[Call]]


@dataclass(frozen=True)
class Stranger:
    """A model of a package that nobody here wrote."""

    package: str
    name: str
    build: Callable[[], Built]


STRANGERS: list[Stranger] = []


def stranger(package: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Register a function that builds a model of this package."""

    def register(build: Callable[[], Built]) -> Callable[[], Built]:
        STRANGERS.append(Stranger(package, build.__name__, build))
        return build

    return register


def deployed(model: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """Return a module that calls the package's model, as a deployment's wrapper does. `forward` is its method."""
    module: nn.Module = type("Deployed", (nn.Module,), {"forward": forward})()
    module.model = model
    return module


def images(*sizes: tuple[int, int, int], channels: int = 3) -> list[Call]:
    """Images of these batches, heights and widths, with values from 0 to 1."""
    return [(torch.rand(batch, channels, height, width),) for batch, height, width in sizes]


def batches(side: int, channels: int = 3) -> list[Call]:
    """Ten batches of square images after the example, for a model whose size of image is its own."""
    return images(*[(batch, side, side) for batch in (2, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16)], channels=channels)


def any_images(step: int, channels: int = 3) -> list[Call]:
    """Batches and sizes of images for a model that takes any multiple of `step`, of which the example has two."""
    small, middle, large = 2 * step, 3 * step, 4 * step
    sizes = [(2, small, small), (1, small, small), (3, small, small), (8, small, small), (1, middle, middle)]
    sizes += [(2, middle, middle), (1, large, large), (2, small, middle), (1, middle, small), (3, large, small)]
    return images((2, small, small), *sizes, channels=channels)


def texts(*, masked: bool = True, left: bool = False, longest: int = 64) -> list[Call]:
    """Ids of these batches and lengths, with masks that leave out the padding of shorter rows."""
    sizes = [(2, 8), (1, 8), (2, 8), (3, 8), (8, 8), (1, 1), (1, 16), (2, 5), (4, 33), (2, longest), (5, 12)]
    calls: list[Call] = []
    for place, (batch, length) in enumerate(sizes):
        ids = torch.randint(3, VOCABULARY, (batch, length))
        lengths = torch.tensor([max(1, length - row % 3 * (length // 4)) for row in range(batch)])
        mask = (torch.arange(length)[None] < lengths[:, None]).long()
        if place in (1, 3):  # without padding
            mask = torch.ones_like(mask)
        calls.append((ids, mask.flip(1) if left else mask) if masked else (ids,))
    return calls


def sequences(channels: int, *, last: bool = True, sizes: Sequence[tuple[int, int]] = ()) -> list[Call]:
    """Floats of these batches and lengths, as (batch, length, channels), or with the channels before the length."""
    given = sizes or [
        (2, 32),
        (1, 32),
        (2, 32),
        (3, 32),
        (8, 32),
        (1, 16),
        (1, 64),
        (2, 48),
        (4, 20),
        (2, 100),
        (5, 33),
    ]
    return [(torch.randn(*((batch, length, channels) if last else (batch, channels, length))),)
            for batch, length in given]  # fmt: skip


def features(count: int) -> list[Call]:
    """Rows of a table."""
    return [(torch.randn(batch, count),) for batch in (4, 1, 2, 3, 4, 5, 8, 16, 32, 64, 100)]


def with_each(calls: Iterable[Call], make: Callable[[Call], Call]) -> list[Call]:
    """Calls with further arguments behind those that they have."""
    return [(*call, *make(call)) for call in calls]


# torchvision


@stranger("torchvision")
def resnet18() -> Built:
    import torchvision

    return torchvision.models.resnet18(num_classes=10), any_images(32)


@stranger("torchvision")
def lraspp_mobilenet() -> Built:
    import torchvision

    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=4)
    return model, any_images(32)


@stranger("torchvision")
def swin_tiny_blocks() -> Built:
    import torchvision

    model = torchvision.models.SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=10
    )
    return model, any_images(32)


@stranger("torchvision")
def video_r3d() -> Built:
    import torchvision

    sizes = [
        (1, 8, 32),
        (1, 8, 32),
        (2, 8, 32),
        (3, 8, 32),
        (1, 16, 32),
        (2, 4, 32),
        (1, 8, 48),
        (2, 8, 64),
        (4, 8, 32),
    ]
    sizes += [(1, 12, 40), (2, 16, 48)]
    calls: list[Call] = [(torch.rand(batch, 3, frames, side, side),) for batch, frames, side in sizes]
    return torchvision.models.video.r3d_18(num_classes=5), calls


@stranger("torchvision")
def vision_transformer() -> Built:
    import torchvision

    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=10
    )
    return model, batches(32)


# timm


@stranger("timm")
def efficientnet_lite0() -> Built:
    import timm

    return timm.create_model("efficientnet_lite0", num_classes=10), any_images(32)


@stranger("timm")
def convnext_atto() -> Built:
    import timm

    return timm.create_model("convnext_atto", num_classes=10), any_images(32)


@stranger("timm")
def vit_tiny_any_size() -> Built:
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=64, dynamic_img_size=True, depth=2, num_classes=10)
    return model, any_images(32)


@stranger("timm")
def mobilevit_xxs() -> Built:
    import timm

    return timm.create_model("mobilevit_xxs", num_classes=10), batches(64)


# transformers and sentence-transformers

_TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "max_position_embeddings": 128,
}  # fmt: skip


@stranger("transformers")
def bert_classifier() -> Built:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(**_TEXT, num_labels=3))
    return deployed(model, lambda self, ids, mask: self.model(input_ids=ids, attention_mask=mask).logits), texts()


@stranger("transformers")
def distilbert_tokens() -> Built:
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    config = DistilBertConfig(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=37)
    model = DistilBertForTokenClassification(config)
    return deployed(model, lambda self, ids, mask: self.model(input_ids=ids, attention_mask=mask).logits), texts()


@stranger("transformers")
def gpt2_logits() -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128))
    ask = lambda self, ids, mask: self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits  # noqa: E731
    return deployed(model, ask), texts(left=True)


@stranger("transformers")
def llama_step_with_cache() -> Built:
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**_TEXT, num_key_value_heads=2, head_dim=8, pad_token_id=0))

    def step(self: nn.Module, ids: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> Any:
        layers = [(keys[place], values[place]) for place in range(2)]
        answer = self.model(input_ids=ids, attention_mask=mask, past_key_values=DynamicCache(layers), use_cache=True)
        cached = answer.past_key_values.layers
        return answer.logits, torch.stack([one.keys for one in cached]), torch.stack([one.values for one in cached])

    calls: list[Call] = []
    sizes = [(2, 7), (1, 7), (2, 7), (3, 7), (8, 7), (1, 1), (1, 16), (2, 5), (4, 33), (2, 64), (5, 12)]
    for batch, past in sizes:
        mask = torch.ones(batch, past + 1, dtype=torch.int64)
        mask[1:, : past // 3] = 0
        cache = [torch.randn(2, batch, 2, past, 8) for _ in "kv"]
        calls.append((torch.randint(3, VOCABULARY, (batch, 1)), mask, *cache))
    return deployed(model, step), calls


@stranger("transformers")
def t5_encoder() -> Built:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)
    model = T5EncoderModel(config)
    return deployed(model, lambda self, ids, mask: self.model(input_ids=ids, attention_mask=mask)[0]), texts()


@stranger("transformers")
def vit_classifier() -> Built:
    from transformers import ViTConfig, ViTForImageClassification

    small = {key: value for key, value in _TEXT.items() if key not in ("vocab_size", "max_position_embeddings")}
    model = ViTForImageClassification(ViTConfig(**small, image_size=32, patch_size=8, num_labels=5))
    return deployed(model, lambda self, pixels: self.model(pixel_values=pixels).logits), batches(32)


@stranger("transformers")
def segformer() -> Built:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], decoder_hidden_size=16, num_attention_heads=[1, 2, 2, 4]
    )
    model = SegformerForSemanticSegmentation(config)
    return deployed(model, lambda self, pixels: self.model(pixel_values=pixels).logits), any_images(32)


@stranger("transformers")
def wav2vec2_ctc() -> Built:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        conv_dim=(16, 16, 16), conv_stride=(5, 4, 2), conv_kernel=(10, 4, 2), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    sizes = [(2, 1600), (1, 1600), (2, 1600), (3, 1600), (8, 1600), (1, 800), (1, 3200), (2, 2000), (4, 1234)]
    calls: list[Call] = [(torch.randn(batch, samples),) for batch, samples in [*sizes, (2, 4000), (5, 1000)]]
    return deployed(Wav2Vec2ForCTC(config), lambda self, audio: self.model(input_values=audio).logits), calls


@stranger("transformers")
def clip_text_and_image() -> Built:
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
    text = {**sizes, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "eos_token_id": VOCABULARY - 1}
    config = CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 32, "patch_size": 8}, projection_dim=16)

    def ask(self: nn.Module, ids: Tensor, mask: Tensor, pixels: Tensor) -> Any:
        return self.model(input_ids=ids, attention_mask=mask, pixel_values=pixels).logits_per_image

    calls = with_each(texts(), lambda _: (torch.rand(3, 3, 32, 32),))
    for ids, mask, _ in calls:  # the last token of each text is the end
        ids[torch.arange(len(ids)), mask.sum(1) - 1] = VOCABULARY - 1
    return deployed(CLIPModel(config), ask), calls


@stranger("transformers")
def detr_like_yolos() -> Built:
    from transformers import YolosConfig, YolosForObjectDetection

    small = {key: value for key, value in _TEXT.items() if key not in ("vocab_size", "max_position_embeddings")}
    config = YolosConfig(
        **small, image_size=[32, 32], patch_size=8, num_detection_tokens=5, use_mid_position_embeddings=False
    )

    def ask(self: nn.Module, pixels: Tensor) -> Any:
        answer = self.model(pixel_values=pixels)
        return answer.logits, answer.pred_boxes

    return deployed(YolosForObjectDetection(config), ask), any_images(16)


@stranger("sentence-transformers")
def sentence_embedding() -> Built:
    from sentence_transformers.models import Normalize, Pooling
    from transformers import BertConfig, BertModel

    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert, self.pool, self.normalize = BertModel(BertConfig(**_TEXT)), Pooling(32), Normalize()

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            tokens = self.bert(input_ids=ids, attention_mask=mask)[0]
            pooled = self.pool({"token_embeddings": tokens, "attention_mask": mask})
            embedding: Tensor = self.normalize(pooled)["sentence_embedding"]
            return embedding

    return Sentences(), texts()


# diffusers

_AUTOENCODER = {
    "block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1, "latent_channels": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip


@stranger("diffusers")
def vae_decoder() -> Built:
    from diffusers.models import AutoencoderKL

    model = AutoencoderKL(**_AUTOENCODER)
    return deployed(model, lambda self, latent: self.model.decode(latent).sample), any_images(4, channels=4)


@stranger("diffusers")
def vae_encoder() -> Built:
    from diffusers.models import AutoencoderKL

    model = AutoencoderKL(**_AUTOENCODER)
    return deployed(model, lambda self, image: self.model.encode(image).latent_dist.mode()), any_images(16)


@stranger("diffusers")
def conditioned_unet() -> Built:
    from diffusers.models import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1, cross_attention_dim=16,
        attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip

    def ask(self: nn.Module, latent: Tensor, step: Tensor, text: Tensor) -> Any:
        return self.model(latent, step, encoder_hidden_states=text).sample

    tokens = iter([5, 5, 5, 5, 5, 5, 7, 3, 5, 9, 12])
    calls = with_each(
        any_images(4, channels=4),
        lambda call: (torch.randint(0, 1000, (len(call[0]),)), torch.randn(len(call[0]), next(tokens), 16)),
    )
    return deployed(model, ask), calls


@stranger("diffusers")
def diffusion_transformer() -> Built:
    from diffusers.models import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2, norm_num_groups=1,
        sample_size=8, patch_size=2, num_embeds_ada_norm=10,
    )  # fmt: skip

    def ask(self: nn.Module, latent: Tensor, step: Tensor, label: Tensor) -> Any:
        return self.model(latent, timestep=step, class_labels=label).sample

    calls = with_each(
        batches(8, channels=4),
        lambda call: (torch.randint(0, 1000, (len(call[0]),)), torch.randint(0, 10, (len(call[0]),))),
    )
    return deployed(model, ask), calls


# ultralytics


def _yolo(config: str, step: int = 32) -> Built:
    from ultralytics.nn.tasks import DetectionModel

    return DetectionModel(config, ch=3, nc=4, verbose=False), any_images(step)


@stranger("ultralytics")
def yolov8_detector() -> Built:
    model, calls = _yolo("yolov8n.yaml")
    return deployed(model.eval(), lambda self, image: self.model(image)[0]), calls


@stranger("ultralytics")
def yolov8_export_head() -> Built:
    model, calls = _yolo("yolov8n.yaml")
    head = model.eval().model[-1]
    head.export, head.dynamic, head.format = True, True, "torchscript"
    return model, calls


@stranger("ultralytics")
def yolov8_segmenter() -> Built:
    from ultralytics.nn.tasks import SegmentationModel

    model = SegmentationModel("yolov8n-seg.yaml", ch=3, nc=4, verbose=False).eval()
    head = model.model[-1]
    head.export, head.dynamic, head.format = True, True, "torchscript"
    return model, any_images(32)


@stranger("ultralytics")
def yolo11_classifier() -> Built:
    from ultralytics.nn.tasks import ClassificationModel

    model = ClassificationModel("yolo11n-cls.yaml", ch=3, nc=4, verbose=False).eval()
    return deployed(model, lambda self, image: self.model(image)[0]), any_images(32)


# Language and images: open_clip, openai-whisper


@stranger("open_clip_torch")
def open_clip() -> Built:
    from open_clip.model import CLIP

    model = CLIP(
        16, {"layers": 2, "width": 32, "head_width": 8, "image_size": 32, "patch_size": 8},
        {"context_length": 12, "vocab_size": VOCABULARY, "width": 32, "heads": 4, "layers": 2},
    )  # fmt: skip

    def ask(self: nn.Module, image: Tensor, text: Tensor) -> Any:
        return self.model.encode_image(image, normalize=True) @ self.model.encode_text(text, normalize=True).T

    counts = iter([2, 1, 2, 3, 4, 1, 5, 2, 6, 3, 8])

    def tokens(_: Call) -> Call:
        count = next(counts)
        text = torch.randint(3, VOCABULARY - 1, (count, 12))
        lengths = torch.randint(3, 12, (count,))
        text[torch.arange(12)[None] > lengths[:, None]] = 0
        text[torch.arange(count), lengths] = VOCABULARY - 1
        return (text,)

    return deployed(model, ask), with_each(batches(32), tokens)


def _whisper() -> nn.Module:
    from whisper.model import ModelDimensions, Whisper

    model: nn.Module = Whisper(ModelDimensions(8, 20, 16, 2, 2, VOCABULARY, 24, 16, 2, 2))
    return model


@stranger("openai-whisper")
def whisper_encoder() -> Built:
    calls: list[Call] = [(torch.randn(batch, 8, 40),) for batch in (2, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16)]
    return deployed(_whisper(), lambda self, mel: self.model.encoder(mel)), calls


@stranger("openai-whisper")
def whisper_decoder() -> Built:
    sizes = [(2, 6), (1, 6), (2, 6), (3, 6), (8, 6), (1, 1), (1, 24), (2, 5), (4, 20), (2, 12), (5, 3)]
    calls: list[Call] = [
        (torch.randint(0, VOCABULARY, (batch, length)), torch.randn(batch, 20, 16)) for batch, length in sizes
    ]
    return deployed(_whisper(), lambda self, tokens, audio: self.model.decoder(tokens, audio)), calls


# Segmentation


@stranger("segmentation-models-pytorch")
def unet_resnet18() -> Built:
    import segmentation_models_pytorch as smp

    return smp.Unet("resnet18", encoder_weights=None, classes=2), any_images(32)


@stranger("segmentation-models-pytorch")
def fpn_mobilenet() -> Built:
    import segmentation_models_pytorch as smp

    return smp.FPN("mobilenet_v2", encoder_weights=None, classes=2), any_images(32)


@stranger("segmentation-models-pytorch")
def deeplab_v3_plus() -> Built:
    import segmentation_models_pytorch as smp

    return smp.DeepLabV3Plus("resnet18", encoder_weights=None, classes=2), any_images(32)


@stranger("segment-anything")
def sam_image_encoder() -> Built:
    from segment_anything.modeling import ImageEncoderViT

    model = ImageEncoderViT(
        img_size=64, patch_size=8, embed_dim=32, depth=2, num_heads=4, out_chans=16, use_rel_pos=True, window_size=4,
        global_attn_indexes=(1,),
    )  # fmt: skip
    return model, batches(64)


@stranger("monai")
def unet_of_volumes() -> Built:
    from monai.networks.nets import UNet

    model = UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
    return model, _volumes(4)


@stranger("monai")
def segresnet() -> Built:
    from monai.networks.nets import SegResNet

    return SegResNet(3, init_filters=8, in_channels=1, out_channels=2, blocks_down=(1, 1), blocks_up=(1,)), _volumes(4)


def _volumes(step: int) -> list[Call]:
    sizes = [(2, 4, 4, 4), (1, 4, 4, 4), (2, 4, 4, 4), (3, 4, 4, 4), (1, 8, 8, 8), (2, 6, 6, 6), (1, 4, 6, 8)]
    sizes += [(1, 8, 4, 4), (4, 4, 4, 4), (2, 4, 8, 4), (1, 6, 4, 8)]
    return [(torch.randn(batch, 1, *(step * side for side in sides)),) for batch, *sides in sizes]


# Graphs


def _graph(model: nn.Module) -> Built:
    calls: list[Call] = []
    for nodes, edges in ((10, 30), (10, 30), (10, 12), (5, 8), (20, 60), (3, 2), (50, 200), (10, 31), (1, 1), (7, 21)):
        calls.append((torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))))
    calls.append((torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])))
    return model, calls


@stranger("torch_geometric")
def gcn() -> Built:
    from torch_geometric.nn.models import GCN

    return _graph(GCN(8, 16, 2, 4))


@stranger("torch_geometric")
def gat() -> Built:
    from torch_geometric.nn.models import GAT

    return _graph(GAT(8, 16, 2, 4, heads=2))


@stranger("torch_geometric")
def graph_sage() -> Built:
    from torch_geometric.nn.models import GraphSAGE

    return _graph(GraphSAGE(8, 16, 2, 4))


# Sound


@stranger("demucs")
def demucs_waveforms() -> Built:
    from demucs.demucs import Demucs

    model = Demucs(["voice", "rest"], channels=4, depth=2, lstm_layers=0, dconv_attn=9, dconv_lstm=9, resample=False)
    sizes = [(2, 1000), (1, 1000), (2, 1000), (3, 1000), (4, 1000), (1, 512), (1, 2000), (2, 1500), (3, 777)]
    return model, sequences(2, last=False, sizes=[*sizes, (2, 1024), (1, 4000)])


@stranger("conformer")
def conformer() -> Built:
    from conformer import Conformer

    return Conformer(32, depth=2, dim_head=8, heads=4, conv_kernel_size=7), sequences(32)


# Images: the rest


@stranger("kornia")
def hardnet_patches() -> Built:
    from kornia.feature import HardNet

    return HardNet(pretrained=False), batches(32, channels=1)


@stranger("kornia")
def image_pipeline() -> Built:
    import kornia

    class Pipeline(nn.Module):
        def forward(self, image: Tensor) -> Tensor:
            blurred = kornia.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5))
            edges: Tensor = kornia.filters.sobel(kornia.color.rgb_to_grayscale(blurred))
            return kornia.geometry.transform.resize(edges, (32, 32))

    return Pipeline(), any_images(24)


@stranger("facenet-pytorch")
def inception_resnet() -> Built:
    from facenet_pytorch import InceptionResnetV1

    sizes = [(2, 80, 80), (1, 80, 80), (2, 80, 80), (3, 80, 80), (4, 80, 80), (1, 112, 112), (2, 96, 96), (1, 160, 160)]
    return InceptionResnetV1(pretrained=None), images(*sizes, (5, 80, 80), (2, 100, 80), (8, 80, 80))


@stranger("pytorchvideo")
def x3d() -> Built:
    from pytorchvideo.models.x3d import create_x3d

    model = create_x3d(input_clip_length=4, input_crop_size=64, model_num_class=5)
    calls: list[Call] = [(torch.rand(batch, 3, 4, 64, 64),) for batch in (2, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12)]
    return model, calls


@stranger("vit-pytorch")
def simple_vit() -> Built:
    from vit_pytorch import SimpleViT

    return SimpleViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=4, mlp_dim=64), batches(32)


@stranger("efficientnet-pytorch")
def efficientnet_b0() -> Built:
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0", num_classes=5, image_size=64), any_images(32)


@stranger("spandrel")
def esrgan_upscaler() -> Built:
    from spandrel.architectures.ESRGAN.__arch.RRDB import RRDBNet

    return RRDBNet(num_filters=8, num_blocks=1, scale=2), any_images(16)


@stranger("spandrel")
def swinir_upscaler() -> Built:
    from spandrel.architectures.SwinIR import SwinIR

    model = SwinIR(
        img_size=16, embed_dim=24, depths=[2], num_heads=[2], window_size=4, upscale=2, upsampler="pixelshuffledirect"
    )
    return model, any_images(16)


@stranger("denoising-diffusion-pytorch")
def pixel_diffusion() -> Built:
    from denoising_diffusion_pytorch import Unet

    model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    return model, with_each(any_images(8), lambda call: (torch.randint(0, 1000, (len(call[0]),)),))


@stranger("easyocr")
def text_recogniser() -> Built:
    from easyocr.model.vgg_model import Model

    sizes = [(1, 100), (1, 100), (2, 100), (3, 100), (1, 64), (1, 200), (2, 150), (4, 80), (1, 320), (8, 100), (2, 120)]
    calls: list[Call] = [(torch.rand(batch, 1, 64, width),) for batch, width in sizes]
    return deployed(Model(1, 16, 32, 20), lambda self, image: self.model(image, "")), calls


# Text: the rest


@stranger("x-transformers")
def x_transformer_encoder() -> Built:
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=32, depth=2, heads=4)
    model = TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers)
    return deployed(model, lambda self, ids, mask: self.model(ids, mask=mask.bool())), texts()


@stranger("x-transformers")
def x_transformer_decoder() -> Built:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers), texts(masked=False)


@stranger("bert-pytorch")
def bert_of_segments() -> Built:
    from bert_pytorch.model import BERT

    model = BERT(VOCABULARY, hidden=32, n_layers=2, attn_heads=4)
    segments = lambda call: ((call[1] > 0).long(),)  # noqa: E731

    def padded(call: Call) -> Call:
        ids, mask = call
        return ids * mask, *segments(call)

    return model, [padded(call) for call in texts()]


@stranger("performer-pytorch")
def performer() -> Built:
    from performer_pytorch import Performer

    return Performer(dim=32, depth=1, heads=4, dim_head=8, nb_features=16), sequences(32)


# Tables


@stranger("pytorch-tabnet")
def tabnet() -> Built:
    from pytorch_tabnet.tab_network import TabNet

    groups = torch.eye(8)
    return TabNet(8, 3, cat_dims=[], cat_idxs=[], cat_emb_dim=[], group_attention_matrix=groups), features(8)


@stranger("tab-transformer-pytorch")
def ft_transformer() -> Built:
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(categories=(4, 6, 3), num_continuous=5, dim=16, depth=2, heads=2)
    calls: list[Call] = []
    for (numbers,) in features(5):
        kinds = [torch.randint(0, count, (len(numbers),)) for count in (4, 6, 3)]
        calls.append((torch.stack(kinds, 1), numbers))
    return model, calls


@stranger("deepctr-torch")
def deepfm() -> Built:
    from deepctr_torch.inputs import DenseFeat, SparseFeat
    from deepctr_torch.models import DeepFM

    columns = [SparseFeat("user", 20, 4), SparseFeat("item", 30, 4), DenseFeat("age", 1)]
    calls: list[Call] = []
    for batch in (4, 1, 2, 3, 4, 5, 8, 16, 32, 64, 100):
        kinds = [torch.randint(0, count, (batch, 1)).float() for count in (20, 30)]
        calls.append((torch.cat([*kinds, torch.rand(batch, 1)], 1),))
    return DeepFM(columns, columns, dnn_hidden_units=(16, 8)), calls
